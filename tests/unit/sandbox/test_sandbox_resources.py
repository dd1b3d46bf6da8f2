"""What a container's cgroup tells of the limits that were met."""

from pathlib import Path

import pytest

from harness.sandbox.resources import pids_limit_hits


@pytest.mark.parametrize("controller", ["", "pids"])
def test_refused_forks_are_counted_by_either_version_of_cgroups(tmp_path: Path, controller: str) -> None:
    (tmp_path / "pids.events").write_text("max 12\n")
    assert pids_limit_hits({"memory": tmp_path / "elsewhere", controller: tmp_path}) == 12


def test_a_container_that_is_gone_has_no_count(tmp_path: Path) -> None:
    assert pids_limit_hits({}) == 0
    assert pids_limit_hits({"": tmp_path / "gone"}) == 0
    (tmp_path / "pids.events").write_text("max what\n")
    assert pids_limit_hits({"": tmp_path}) == 0
