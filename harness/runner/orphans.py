"""Runs whose harness died: taken up again in the background, or removed where there is nothing to take up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from harness.domain.admin import CloseRun, FinishRun, RunStatus
from harness.domain.runs import EndedBy
from harness.home import Home
from harness.runner.grader_client import GraderClient
from harness.runner.hold import is_held
from harness.sandbox import reaper
from harness.sandbox.engine import DockerClient
from harness.sandbox.process import spawn_detached

RESUME_LOG = "resume.log"
PLAN_FILE = "plan.json"
Say = Callable[[str], None]


def tend_orphans(client: DockerClient, home: Home, grader: GraderClient, say: Say) -> None:
    """Sees to every run of this home that nobody drives; other homes' and people's objects are not touched."""
    active = {status.run_id: status for status in grader.active_runs()}
    for run_id, status in active.items():
        if not is_held(home.run(run_id)):
            _take_up(run_id, status, home, grader, say)
    held = {folder.name for folder in home.runs.iterdir() if is_held(home.run(folder.name))}
    for leftover in reaper.orphans(client, home, active.keys() | held):
        say(f"removing what is left of run {leftover.run_id}")
        reaper.remove_run_objects(client, home, leftover.run_id)


def _take_up(run_id: str, status: RunStatus, home: Home, grader: GraderClient, say: Say) -> None:
    folder = home.run(run_id).path
    if (folder / PLAN_FILE).is_file():
        log = folder / RESUME_LOG
        say(f"run {run_id} lost its harness during {status.phase.value}: taken up in the background, see {log}")
        resume_in_background(run_id, log)
        return
    say(f"run {run_id} lost its harness and its folder: closed as void")
    grader.finish(run_id, FinishRun(ended_by=EndedBy.INFRASTRUCTURE, detail="its folder is gone"))
    grader.close(run_id, CloseRun())


def resume_in_background(run_id: str, log: Path) -> None:
    """`harness resume` in a process of its own, which outlives this one."""
    spawn_detached([sys.executable, "-m", "harness", "resume", run_id], log)
