"""What a person watching a run wants to know; how it is drawn is the CLI's business."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from harness.domain.admin import RunStatus
from harness.domain.base import Frozen
from harness.domain.runs import Phase, RunKind
from harness.runner.meter import Count

# How often a person is told how far something is.
TELL_EVERY_S = 0.1


class Progress(Frozen):
    """The state of a run at one moment; scores are those of the feedback items.

    With `total_bytes`, it is how far that is what `message` says is being done.
    """

    run_id: str
    phase: Phase
    elapsed_s: float
    remaining_s: float | None = None
    baseline_pct: float | None = None
    best_pct: float | None = None
    submissions: int = 0
    open_submissions: int = 0
    message: str = ""
    done_bytes: int = 0
    total_bytes: int = 0


Sink = Callable[[Progress], None]


@dataclass
class Reporter:
    """Turns the grader's status into progress; `started` is when this harness took the run up."""

    run_id: str
    sink: Sink
    started: datetime
    # When the agent started, as soon as that is known: one clock for all that is told from then on.
    _agent_started: datetime | None = field(default=None, init=False)

    def say(self, phase: Phase, message: str) -> None:
        """Something happened that is worth a line."""
        elapsed_s = self._elapsed(self._agent_started or self.started)
        self.sink(Progress(run_id=self.run_id, phase=phase, elapsed_s=elapsed_s, message=message))

    @contextmanager
    def meter(self, what: str, total_bytes: int) -> Iterator[Count]:
        """Tells, a few times a second, how far `what` is (harness.runner.meter)."""
        done, told_at = 0, time.monotonic()

        def tell(n_bytes: int) -> None:
            state = Progress(
                run_id=self.run_id,
                phase=Phase.PREPARING,
                elapsed_s=self._elapsed(self.started),
                message=what,
                done_bytes=min(n_bytes, total_bytes),
                total_bytes=total_bytes,
            )
            self.sink(state)

        def count(n_bytes: int) -> None:
            nonlocal done, told_at
            done += n_bytes
            if time.monotonic() - told_at >= TELL_EVERY_S:
                told_at = time.monotonic()
                tell(done)

        yield count
        if total_bytes:
            tell(total_bytes)

    def show(self, status: RunStatus, phase: Phase) -> None:
        """Where the run is now."""
        now = datetime.now(UTC)
        self._agent_started = status.started_at or self._agent_started
        # Nobody waits for the deadline of a grading.
        deadline = status.deadline if status.kind is RunKind.AGENT else None
        scored = [s.feedback_pct for s in status.submissions if s.feedback_pct is not None]
        self.sink(
            Progress(
                run_id=self.run_id,
                phase=phase,
                elapsed_s=self._elapsed(self._agent_started or self.started),
                remaining_s=(deadline - now).total_seconds() if deadline else None,
                baseline_pct=status.baseline.feedback_pct if status.baseline else None,
                best_pct=max(scored, default=None),
                submissions=len(status.submissions),
                open_submissions=status.open_submissions,
            )
        )

    def _elapsed(self, since: datetime) -> float:
        return (datetime.now(UTC) - since).total_seconds()


def quiet(run_id: str) -> Reporter:
    """A reporter for nobody."""
    return Reporter(run_id, lambda _: None, datetime.now(UTC))
