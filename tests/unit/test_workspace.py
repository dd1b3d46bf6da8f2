"""What an agent finds when it starts, also where it has been before."""

import os
from pathlib import Path

import pytest

from harness.home import Home
from harness.runner.workspace import lay_out
from tests.run_fakes import make_plan


@pytest.fixture
def workspace(home: Home) -> Path:
    plan = make_plan(home.path)
    folder = home.run(plan.run_id)
    folder.filesystem.mkdir(parents=True)
    lay_out(plan, home, os.getuid(), os.getgid())
    return folder.workspace


def again(home: Home) -> None:
    lay_out(make_plan(home.path), home, os.getuid(), os.getgid())


def test_what_an_agent_put_in_a_folders_place_is_moved_aside(home: Home, workspace: Path) -> None:
    (workspace / "code").rmdir()
    (workspace / "code").symlink_to("/etc")
    again(home)
    assert (workspace / "code").is_dir()
    assert not (workspace / "code").is_symlink()
    assert (workspace / "code.moved-aside").is_symlink()


def test_a_name_that_is_taken_does_not_stop_a_run_from_going_on(home: Home, workspace: Path) -> None:
    (workspace / "code").rmdir()
    (workspace / "code").write_text("x")
    (workspace / "code.moved-aside").mkdir()
    (workspace / "code.moved-aside" / "mine").write_text("x")
    (workspace / "code.moved-aside-2").symlink_to("nowhere")
    again(home)
    assert (workspace / "code").is_dir()
    assert (workspace / "code.moved-aside" / "mine").is_file()
    assert (workspace / "code.moved-aside-3").read_text() == "x"
