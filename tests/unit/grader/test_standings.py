"""How a submission stood when it ended, and that telling it of many costs little more than of one."""

import time
from datetime import UTC, datetime, timedelta

from harness.domain.runs import SubmissionState
from harness.domain.scoring import Score
from harness.domain.specs import Protocol
from harness.grader.standings import Standings
from harness.store.models import PartScores, SubmissionRecord

START = datetime(2026, 1, 1, tzinfo=UTC)


def submission(number: int, score_pct: float | None, ended_s: float, **changes: object) -> SubmissionRecord:
    score = None if score_pct is None else Score(score_pct=score_pct, stderr_pct=1.0, n_items=100)
    record = SubmissionRecord(
        id=number,
        run_id="r",
        number=number,
        state=SubmissionState.SCORED if score else SubmissionState.FAILED,
        model_path="m",
        submitted_at=START + timedelta(seconds=number),
        ended_at=START + timedelta(seconds=ended_s),
        scores=score and PartScores(feedback=score, final=score, overall=score),
    )
    return record.model_copy(update=changes)


def test_the_best_is_that_of_the_moment_and_of_equals_the_earliest() -> None:
    # The third ended before the second.
    records = [submission(1, 40, 10), submission(2, 60, 40), submission(3, 60, 20), submission(4, 10, 50)]
    standings = Standings(records, Protocol.PAPER)
    bests = [standings.best_at(START + timedelta(seconds=s)) for s in (5, 10, 20, 30, 40, 50)]
    assert [best and best.number for best in bests] == [None, 1, 3, 3, 2, 2]


def test_a_failed_one_is_never_the_best() -> None:
    assert Standings([submission(1, None, 10)], Protocol.PAPER).best_at(START + timedelta(hours=1)) is None


def test_what_is_counted_was_handed_in_by_then_and_not_rejected() -> None:
    rejected = submission(2, None, 3, state=SubmissionState.REJECTED)
    standings = Standings([submission(1, 40, 10), rejected, submission(3, 50, 20)], Protocol.PAPER)
    assert [standings.counted_at(START + timedelta(seconds=s)) for s in (0, 1, 2, 3)] == [0, 1, 1, 2]


def test_the_position_is_how_many_wait_before_it() -> None:
    waiting = [submission(n, None, 99, state=SubmissionState.QUEUED, ended_at=None) for n in (2, 5, 7)]
    standings = Standings([submission(1, 40, 10), *waiting], Protocol.PAPER)
    assert [standings.position_of(record) for record in waiting] == [0, 1, 2]
    assert standings.position_of(submission(1, 40, 10)) is None


def test_ten_thousand_submissions_hold_nobody_up() -> None:
    """Every reply once looked at every submission: a run with many could keep the grader from all others."""
    records = [submission(n, n % 90, n + 0.5) for n in range(10_000)]
    began = time.process_time()
    standings = Standings(records, Protocol.PAPER)
    for record in records:
        assert record.ended_at is not None
        standings.best_at(record.ended_at), standings.counted_at(record.ended_at), standings.position_of(record)
    assert time.process_time() - began < 2
