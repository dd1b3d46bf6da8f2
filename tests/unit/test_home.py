"""The layout of a home."""

from harness.home import Home


def test_a_doctors_stage_is_no_run(home: Home) -> None:
    for name in ("doctor-0a1b2c3d-probe", "20260101T000000_noop_0001", "20250101T000000_noop_0001"):
        home.run(name).path.mkdir()
    (home.runs / "a-file").touch()
    assert home.run_ids() == ["20250101T000000_noop_0001", "20260101T000000_noop_0001"]


def test_a_home_without_runs_has_none(home: Home) -> None:
    home.runs.rmdir()
    assert home.run_ids() == []
