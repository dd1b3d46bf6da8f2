"""What an agent finds when it starts, also where it has been before."""

import errno
import os
from pathlib import Path

import pytest

from harness.domain.specs import EvalMode
from harness.errors import HarnessError, InfrastructureError, WorkspaceSpoiled
from harness.home import Home
from harness.runner.attempt import Attempt
from harness.runner.prompts import description
from harness.runner.workspace import lay_out
from tests.run_fakes import RUN_ID, make_plan


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


@pytest.mark.parametrize(("attempt", "error"), [(1, InfrastructureError), (2, WorkspaceSpoiled)])
def test_no_room_for_its_folders_is_the_doing_of_an_agent_that_was_there(
    home: Home, workspace: Path, monkeypatch: pytest.MonkeyPatch, attempt: int, error: type[HarnessError]
) -> None:
    Attempt(number=attempt).save(home.run(RUN_ID))
    (workspace / "code").rmdir()
    make = Path.mkdir

    def full(path: Path, *words: object, **more: object) -> None:
        if path == workspace / "code":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        make(path, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(error, match="No space left"):
        again(home)


def test_an_agent_is_told_when_opencompass_decides_how_it_is_asked(home: Home) -> None:
    plan = make_plan(home.path)
    own = description(plan)
    changed = {"eval_mode": EvalMode.OPENCOMPASS, "opencompass_dataset": "sums_gen"}
    config = plan.benchmark.config.model_copy(update=changed)
    told = description(plan.model_copy(update={"benchmark": plan.benchmark.model_copy(update={"config": config})}))
    assert told.endswith(own)
    assert "config `sums_gen`" in told.removesuffix(own)
    assert "OpenCompass" not in own
