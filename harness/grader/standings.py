"""Where a run's submissions stood at any moment; made in one pass, because every reply asks and a run may have many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime

from harness.domain.runs import SubmissionState
from harness.domain.specs import Protocol
from harness.grader.shown import ShownBest, shown_score
from harness.store.models import SubmissionRecord

WAITING = (SubmissionState.QUEUED, SubmissionState.SCORING)


class Standings:
    """The best submission, the count and the queue of one run, from its submissions by number."""

    def __init__(self, submissions: Sequence[SubmissionRecord], protocol: Protocol) -> None:
        self._counted = sorted(s.submitted_at for s in submissions if s.state is not SubmissionState.REJECTED)
        self._waiting = [s.number for s in submissions if s.state in WAITING]
        self._ended: list[datetime] = []
        self._bests: list[ShownBest | None] = []
        best: ShownBest | None = None
        for ended_at, submission in _by_end(submissions):
            best = _better(best, submission, protocol)
            self._ended.append(ended_at)
            self._bests.append(best)

    def best_at(self, moment: datetime) -> ShownBest | None:
        """The best of what had ended by then by its shown score, of equals the earliest handed in.

        By the exact score it would tell which of two equally shown submissions is better, and so item by item.
        """
        ended = bisect_right(self._ended, moment)
        return self._bests[ended - 1] if ended else None

    def counted_at(self, moment: datetime) -> int:
        """How many had been handed in by then, rejected ones left out."""
        return bisect_right(self._counted, moment)

    def position_of(self, submission: SubmissionRecord) -> int | None:
        """How many wait before it; None if it does not wait."""
        return bisect_left(self._waiting, submission.number) if submission.state in WAITING else None


def _by_end(submissions: Sequence[SubmissionRecord]) -> list[tuple[datetime, SubmissionRecord]]:
    ended = [(s.ended_at, s) for s in submissions if s.ended_at is not None]
    return sorted(ended, key=lambda pair: pair[0])


def _better(best: ShownBest | None, submission: SubmissionRecord, protocol: Protocol) -> ShownBest | None:
    score = shown_score(submission.scores, protocol)
    if score is None:
        return best
    challenger = ShownBest(number=submission.number, score_pct=score.score_pct)
    if best is None or (challenger.score_pct, -challenger.number) > (best.score_pct, -best.number):
        return challenger
    return best
