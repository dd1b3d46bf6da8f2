"""The door, the queue and the end of submissions."""

from __future__ import annotations

from datetime import timedelta

import pytest
import samples
from samples import START

from harness.domain.admin import FinishRun
from harness.domain.runs import EndedBy, SubmissionState
from harness.errors import Conflict, ErrorClass, NotFound, RunEnded, Unready
from harness.store.database import WritableDatabase
from harness.store.records_evaluations import (
    fail_baseline,
    get_baseline,
    mark_baseline_scoring,
    request_baseline,
)
from harness.store.records_queue import (
    admitting_submissions,
    count_in_state,
    get_submission,
    get_submission_by_number,
    next_queued,
    queue_position,
    requeue_all_scoring,
    requeue_failed,
    submissions_of,
)
from harness.store.records_runs import finish_run
from harness.store.records_submissions import (
    mark_admitted,
    mark_failed,
    mark_requeued,
    mark_scored,
    mark_scoring,
    reject_submission,
)

RIGHT = samples.items([1, 1], [1, 1])


def test_numbers_count_per_run_and_ids_over_all(db: WritableDatabase) -> None:
    one, two = samples.registered(db, samples.plan(1)), samples.registered(db, samples.plan(2))
    made = [samples.submitted(db, run.run_id) for run in (one, two, one)]
    assert [s.number for s in made] == [1, 1, 2]
    assert len({s.id for s in made}) == 3
    assert get_submission_by_number(db, two.run_id, 1) == made[1]
    with pytest.raises(NotFound):
        get_submission_by_number(db, two.run_id, 2)


def test_life_of_a_scored_submission(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    new = samples.submitted(db, run.run_id)
    assert new.state is SubmissionState.ADMITTING
    assert admitting_submissions(db, run.run_id) == (new,)
    waiting = mark_admitted(db, new.id, "tree", copied_at=START + timedelta(seconds=2), note="config differs")
    assert next_queued(db, run.run_id) == waiting
    scoring = mark_scoring(db, new.id)
    assert (scoring.attempts, queue_position(db, scoring), next_queued(db, run.run_id)) == (1, 0, None)
    done = mark_scored(db, new.id, samples.evaluated(db, run, "tree", RIGHT), "copy of the base model")
    assert done.note == "config differs; copy of the base model"
    assert done.scores
    assert done.scores.final.score_pct == 100
    assert get_submission(db, new.id) == done == submissions_of(db, run.run_id)[0]


def test_before_the_clock_starts_it_is_not_ready(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan(), is_started=False)
    with pytest.raises(Unready) as raised:
        samples.submitted(db, run.run_id)
    assert raised.value.error_class is ErrorClass.RUN_NOT_STARTED


def test_after_deadline_or_end_nothing_is_taken(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    with pytest.raises(RunEnded, match="time of this run is up"):
        samples.submitted(db, run.run_id, after_s=600)
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.FINISHED))
    with pytest.raises(RunEnded, match="has ended"):
        samples.submitted(db, run.run_id)
    with pytest.raises(NotFound):
        samples.submitted(db, "none")


def test_copy_that_ends_before_the_deadline_counts_even_after_the_agent_has_gone(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    new = samples.submitted(db, run.run_id, after_s=598)
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.FINISHED))
    assert mark_admitted(db, new.id, "x", copied_at=START + timedelta(seconds=599)).state is SubmissionState.QUEUED


def test_copy_that_ends_after_the_deadline_is_rejected(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    new = samples.submitted(db, run.run_id, after_s=599)
    with pytest.raises(RunEnded, match="after the deadline"):
        mark_admitted(db, new.id, "x", copied_at=START + timedelta(seconds=600))
    kept = get_submission(db, new.id)
    assert (kept.state, kept.error_class) == (SubmissionState.REJECTED, ErrorClass.RUN_ENDED)


@pytest.mark.parametrize("is_scoring", [False, True])
def test_same_bytes_in_flight_are_a_conflict_with_their_number(db: WritableDatabase, is_scoring: bool) -> None:
    run = samples.registered(db, samples.plan())
    first = samples.queued(db, run.run_id, "same")
    if is_scoring:
        mark_scoring(db, first.id)
    second = samples.submitted(db, run.run_id)
    with pytest.raises(Conflict) as raised:
        mark_admitted(db, second.id, "same", copied_at=START + timedelta(seconds=3))
    assert raised.value.submission_id == first.number
    assert get_submission(db, second.id).state is SubmissionState.REJECTED


def test_same_bytes_in_another_run_or_scored_already_are_no_conflict(db: WritableDatabase) -> None:
    run, other = samples.registered(db, samples.plan(1)), samples.registered(db, samples.plan(2))
    samples.queued(db, other.run_id, "same")
    samples.scored(db, run, "same", RIGHT)
    assert samples.queued(db, run.run_id, "same").state is SubmissionState.QUEUED


def test_only_what_is_in_the_right_state_moves_on(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    done = samples.scored(db, run, "x", RIGHT)
    for call in (
        lambda: mark_admitted(db, done.id, "y", copied_at=START),
        lambda: reject_submission(db, done.id, ErrorClass.NO_WEIGHTS, ""),
        lambda: mark_scoring(db, done.id),
        lambda: mark_scored(db, done.id, 1),
        lambda: mark_failed(db, done.id, ErrorClass.GRADER_TROUBLE, ""),
        lambda: mark_requeued(db, done.id),
    ):
        with pytest.raises(Conflict, match="is scored"):
            call()
    assert get_submission(db, done.id) == done


def test_failed_submission_has_no_score(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    failed = mark_failed(db, samples.queued(db, run.run_id, "x").id, ErrorClass.LOAD_FAILED, "bad rope config")
    assert (failed.scores, failed.detail, failed.state) == (None, "bad rope config", SubmissionState.FAILED)


def test_queue_is_first_in_first_out_with_positions(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    waiting = [samples.queued(db, run.run_id, tree) for tree in ("a", "b", "c")]
    mark_scoring(db, waiting[0].id)
    assert [queue_position(db, s) for s in submissions_of(db, run.run_id)] == [0, 1, 2]
    assert next_queued(db, run.run_id) == waiting[1]
    assert count_in_state(db, SubmissionState.QUEUED, run_id=run.run_id) == 2
    assert count_in_state(db, SubmissionState.QUEUED, SubmissionState.SCORING) == 3


def test_restart_puts_back_what_was_being_scored(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    request_baseline(db, run.run_id)
    mark_baseline_scoring(db, run.run_id)
    mark_scoring(db, samples.queued(db, run.run_id, "x").id)
    samples.submitted(db, run.run_id)
    assert requeue_all_scoring(db) == 2
    assert [s.state for s in submissions_of(db, run.run_id)] == [SubmissionState.QUEUED, SubmissionState.ADMITTING]
    baseline = get_baseline(db, run.run_id)
    assert baseline
    assert (baseline.state, baseline.attempts) == (SubmissionState.QUEUED, 1)
    assert requeue_all_scoring(db) == 0


def test_requeue_takes_the_graders_failures_only(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    request_baseline(db, run.run_id)
    fail_baseline(db, run.run_id, "engine gone")
    mark_failed(db, samples.queued(db, run.run_id, "x").id, ErrorClass.EVALUATION_FAILED, "")
    mark_failed(db, samples.queued(db, run.run_id, "y").id, ErrorClass.LOAD_FAILED, "")
    assert requeue_failed(db, run.run_id) == 2
    assert [s.state for s in submissions_of(db, run.run_id)] == [SubmissionState.QUEUED, SubmissionState.FAILED]


def test_requeued_submission_keeps_its_attempts(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    new = samples.queued(db, run.run_id, "x")
    mark_scoring(db, new.id)
    mark_requeued(db, new.id)
    assert mark_scoring(db, new.id).attempts == 2
