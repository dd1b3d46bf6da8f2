"""What intake and workers share: the home, the database, who waits, and how a run's services are reached."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from loguru import logger

from harness.domain.runs import SubmissionState
from harness.errors import HarnessError, RequestError, RunEnded, Unready
from harness.grader.base_model import BaseModelInfo
from harness.grader.evaluate import Services
from harness.grader.registry import ActiveRun
from harness.grader.waiters import Waiters
from harness.home import Home
from harness.store.database import WritableDatabase
from harness.store.records_queue import count_in_state

OPEN_STATES = (SubmissionState.ADMITTING, SubmissionState.QUEUED, SubmissionState.SCORING)


class Stopped(Exception):
    """Work should end where it is: the process stops, or its run was closed."""


@dataclass(frozen=True)
class Workshop:
    """`service_root` is where the services see the home's `models/` and `snapshots/`."""

    home: Home
    db: WritableDatabase
    waiters: Waiters
    connect: Callable[[ActiveRun], Services]
    service_root: Path = Path("/")
    # How long a submission waits for GPU memory that others hold.
    memory_wait_s: float = 90.0
    stopping: threading.Event = field(default_factory=threading.Event)

    def base_of(self, run: ActiveRun) -> BaseModelInfo:
        """The run's base model as admission needs it, read once.

        Raises:
            Unready: its folder is not there, or broken.
        """
        if run.base is None:
            model = run.plan.model
            try:
                run.base = BaseModelInfo.load(self.home.path / model.path, model.tree_hash)
            except (HarnessError, OSError) as error:
                logger.error("base model of {}: {}", run.run_id, error)
                raise own_trouble() from error
        return run.base

    def refresh_queue_length(self, run: ActiveRun) -> None:
        """Puts into memory, for /health, how many submissions of the run are not done."""
        run.queue_length = count_in_state(self.db, *OPEN_STATES, run_id=run.run_id)


def own_trouble() -> Unready:
    """What an agent is told when the grader fails; the reason is in the grader's log."""
    return Unready("the grader is in trouble", "Nothing is wrong with your submission: try again later.")


def run_ended() -> RunEnded:
    """What is told once a run is over."""
    return RunEnded("this run has ended", "Nothing can be handed in any more.")


def cut_off(run: ActiveRun) -> RequestError:
    """What a request is told whose work was `Stopped`: its run was closed, or the grader stops."""
    return run_ended() if run.closed.is_set() else stopped_while_waiting()


def stopped_while_waiting() -> Unready:
    """What a request is told that waits while the grader stops."""
    return Unready(
        "the grader is stopping; what was queued stays queued", "Look at /submissions in a minute.", retry_after_s=5
    )
