"""The home: folders with the modes that the trust zones need."""

import stat
from pathlib import Path

import pytest

from harness.home import Home


@pytest.mark.parametrize("name", ["runs", "eval", "sock", "sock/runs", "sock/admin"])
def test_what_only_containers_and_the_harness_need_is_private(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / "home")
    home.create()
    assert stat.S_IMODE((home.path / name).stat().st_mode) == 0o700


def test_creating_a_home_again_tightens_what_was_left_open(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.eval.chmod(0o755)
    home.create()
    assert stat.S_IMODE(home.eval.stat().st_mode) == 0o700


def test_the_database_is_reached_by_its_plain_name(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.db.write_text("x")
    assert home.db_link.read_text() == "x"


def test_a_doctors_stage_is_no_run(home: Home) -> None:
    for name in ("doctor-0a1b2c3d-probe", "20260101T000000_noop_0001", "20250101T000000_noop_0001"):
        home.run(name).path.mkdir()
    (home.runs / "a-file").touch()
    assert home.run_ids() == ["20250101T000000_noop_0001", "20260101T000000_noop_0001"]


def test_a_home_without_runs_has_none(home: Home) -> None:
    home.runs.rmdir()
    assert home.run_ids() == []
