"""Runs whose harness died: taken up again in the background, or removed where there is nothing to take up."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from harness.domain.admin import CloseRun, FinishRun, RunStatus
from harness.domain.runs import EndedBy, RunKind
from harness.errors import InfrastructureError
from harness.home import DOCTOR_PREFIX, Home, RunFolder
from harness.runner.attempt import Attempt
from harness.runner.grader_client import GraderClient
from harness.runner.hold import is_held
from harness.sandbox import reaper
from harness.sandbox.disk import remove_filesystem
from harness.sandbox.engine import DockerClient
from harness.sandbox.process import spawn_detached

RESUME_LOG = "resume.log"
PLAN_FILE = "plan.json"
# In the folder of a grading until the grader knows of it: what dies before that leaves nothing to keep.
GRADE_FILE = "grade.json"
Say = Callable[[str], None]


def tend_orphans(client: DockerClient, home: Home, grader: GraderClient, say: Say) -> None:
    """Sees to every run of this home that nobody drives; other homes' and people's objects are not touched."""
    for status in grader.active_runs():
        if not is_held(home.run(status.run_id)):
            _take_up(status.run_id, status, home, grader, say)
    remove_orphans(client, home, grader, say)


def remove_orphans(client: DockerClient, home: Home, grader: GraderClient, say: Say) -> None:
    """Removes what is left of runs that have ended or never began, of this home alone.

    What cannot be removed is said, and left for the next time: it must not keep another run from going on.
    """
    active = {status.run_id for status in grader.active_runs()}
    live = active | {run_id for run_id in home.run_ids() if is_held(home.run(run_id))}
    try:
        for run_id in sorted(set(home.run_ids()) - live):
            if _is_unbegun_grading(home.run(run_id), grader):
                shutil.rmtree(home.run(run_id).path)
                continue
            ended = grader.find(run_id) if home.run(run_id).token.is_file() else None
            if ended is not None and is_untidy(home.run(run_id), ended):
                say(f"run {run_id} lost its harness when it had ended: tidied up")
                tidy(client, home, run_id)
        for leftover in reaper.orphans(client, home, live):
            say(f"removing what is left of run {leftover.run_id}")
            reaper.remove_run_objects(client, home, leftover.run_id)
        _remove_stages(client, home)
    except InfrastructureError as error:
        say(error.what)


def _remove_stages(client: DockerClient, home: Home) -> None:
    """Removes the folders of dead doctors: they are no runs, and nobody takes them up."""
    stages = [folder.name for folder in home.runs.glob(f"{DOCTOR_PREFIX}*")]
    found = reaper.list_objects(client, home) if stages else {}
    for name in stages:
        if name not in found or not found[name].has_living_owner:
            remove_filesystem(home.run(name))
            shutil.rmtree(home.run(name).path, ignore_errors=True)


def is_untidy(folder: RunFolder, status: RunStatus) -> bool:
    """Whether a run is closed for good and its harness died before it had removed everything."""
    is_over = status.verdict is not None and status.ended_by is not EndedBy.STOPPED
    return is_over and folder.token.is_file()


def tidy(client: DockerClient, home: Home, run_id: str) -> None:
    """What the end of a run still owes: its record in its folder, and nothing else left."""
    from harness.runner.record import keep_record  # brings SQLAlchemy with it

    folder = home.run(run_id)
    keep_record(home, run_id)
    reaper.remove_run_objects(client, home, run_id)
    remove_filesystem(folder)
    for token in (folder.token, folder.llm_token):
        token.unlink(missing_ok=True)


def _is_unbegun_grading(folder: RunFolder, grader: GraderClient) -> bool:
    """Whether a grading died before the grader knew of it."""
    return (folder.path / GRADE_FILE).is_file() and grader.find(folder.path.name) is None


def _take_up(run_id: str, status: RunStatus, home: Home, grader: GraderClient, say: Say) -> None:
    folder = home.run(run_id).path
    if status.kind is RunKind.GRADE:
        say(f"grading {run_id} lost its harness: closed as interrupted")
        grader.finish(run_id, FinishRun(ended_by=EndedBy.STOPPED, detail="its harness died"))
        grader.close(run_id, CloseRun())
        return
    if (folder / PLAN_FILE).is_file():
        log, is_stopped = folder / RESUME_LOG, Attempt.load(home.run(run_id)).stopped_at is not None
        done = "stopped as was asked for" if is_stopped else "taken up"
        say(f"run {run_id} lost its harness during {status.phase.value}: {done} in the background, see {log}")
        in_background("stop" if is_stopped else "resume", run_id, log)
        return
    say(f"run {run_id} lost its harness and its folder: closed as void")
    grader.finish(run_id, FinishRun(ended_by=EndedBy.INFRASTRUCTURE, detail="its folder is gone"))
    grader.close(run_id, CloseRun())


def in_background(command: str, run_id: str, log: Path) -> None:
    """`harness resume` or `stop` of a run in a process of its own, which outlives this one."""
    spawn_detached([sys.executable, "-m", "harness", command, run_id], log)
