"""What the agent finds when it starts: its folders, its task files, and a copy of its clock."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from itertools import count
from pathlib import Path

from harness.domain.base import Frozen
from harness.domain.specs import RunPlan
from harness.errors import InfrastructureError, UsageError, WorkspaceSpoiled
from harness.home import Home, RunFolder
from harness.runner.attempt import Attempt
from harness.runner.prompts import write_prompts
from harness.sandbox.agent import META_FOLDER, TRAJECTORY_NAME

RUN_META = "run_meta.json"
AGENT_FOLDERS = ("code", "output", ".home", "data", "models", TRAJECTORY_NAME)


class ClockCopy(Frozen):
    """`run_meta.json`: Unix seconds; a copy for the agent, never read back."""

    start_time: float | None
    timeout_s: int
    last_submit_time: float | None
    end_time: float | None


def lay_out(plan: RunPlan, home: Home, uid: int, gid: int) -> None:
    """Makes the agent's folders and task files; idempotent, so that a resumed run keeps what it wrote.

    Must run before the agent's container exists: afterwards every name in the workspace is the agent's.

    Raises:
        WorkspaceSpoiled: a stopped run's agent has left it so that this cannot be done.
        InfrastructureError: it cannot be done, and no agent has been there.
    """
    folder = home.run(plan.run_id)
    _write_meta(plan, home)
    try:
        _furnish(plan, folder, uid, gid)
    except OSError as error:
        what = f"the workspace of {plan.run_id} cannot be made ready: {error.strerror}"
        attempt = Attempt.load(folder)
        if attempt.number == 1 and not attempt.continuation:
            raise InfrastructureError(what, "Free disk space under the home.") from error
        raise WorkspaceSpoiled(what, "Its agent has left no room for the folders that every run has.") from error


def _furnish(plan: RunPlan, folder: RunFolder, uid: int, gid: int) -> None:
    for path in (folder.workspace, folder.tmp):
        path.mkdir(mode=0o755, exist_ok=True)
        os.chown(path, uid, gid)
    make_folders(folder.workspace, plan.model.repo_id, uid, gid)
    for entry in sorted(folder.meta.iterdir()):
        link = folder.workspace / entry.name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(f"{META_FOLDER}/{entry.name}")


def make_folders(workspace: Path, repo_id: str, uid: int, gid: int) -> None:
    """The agent's own folders, and those that base model and data are mounted on."""
    for name in (*AGENT_FOLDERS, f"models/{repo_id}"):
        _own_folder(workspace, name, uid, gid)


def write_clock(folder: RunFolder, clock: ClockCopy) -> None:
    """Renews the agent's copy of its clock in one rename (its directory is mounted, so the new file is seen)."""
    target = folder.meta / RUN_META
    stage = folder.meta / f".{RUN_META}"
    stage.write_text(clock.model_dump_json())
    stage.chmod(0o644)
    stage.replace(target)


def clock_copy(plan: RunPlan, started: datetime | None, deadline: datetime | None, last: datetime | None) -> ClockCopy:
    """The copy of the grader's clock that the agent may read."""
    return ClockCopy(
        start_time=started.timestamp() if started else None,
        timeout_s=plan.limits.timeout_s,
        last_submit_time=last.timestamp() if last else None,
        end_time=deadline.timestamp() if deadline else None,
    )


def _own_folder(workspace: Path, name: str, uid: int, gid: int) -> None:
    """A folder of the agent's; on a resumed run whatever the agent put there instead of it is moved aside."""
    path = workspace
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.rename(_free_name(path))
        if not path.exists():
            path.mkdir(mode=0o755)
            os.chown(path, uid, gid)


def _free_name(path: Path) -> Path:
    """A name beside `path` that nothing has yet: every other one in there may be the agent's too."""
    names = (f"{path.name}.moved-aside{f'-{number}' if number > 1 else ''}" for number in count(1))
    return next(free for free in map(path.with_name, names) if not os.path.lexists(free))


def _write_meta(plan: RunPlan, home: Home) -> None:
    folder = home.run(plan.run_id)
    folder.meta.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_prompts(plan, home)
    for name in plan.benchmark.config.expose_files:
        source = plan.benchmark.path / name
        if not source.is_file() or ".." in Path(name).parts:
            raise UsageError(
                f"benchmark {plan.benchmark.id} exposes {name}, which is no file of it", "Correct `expose_files`."
            )
        target = folder.meta / Path(name).name
        shutil.copyfile(source, target)
    if not (folder.meta / RUN_META).is_file():
        write_clock(folder, clock_copy(plan, None, None, None))
    for path in folder.meta.iterdir():
        path.chmod(0o644)
