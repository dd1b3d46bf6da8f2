"""Evaluations, their cache, and baselines."""

from __future__ import annotations

import pytest
import samples

from harness.domain.runs import SubmissionState
from harness.errors import Conflict, NotFound
from harness.store.database import WritableDatabase
from harness.store.models import NewEvaluation
from harness.store.query import run_query
from harness.store.records_evaluations import (
    fail_baseline,
    find_evaluation,
    get_baseline,
    get_evaluation,
    item_scores,
    mark_baseline_scoring,
    request_baseline,
    requeue_baseline,
    save_evaluation,
    set_baseline,
)

ITEMS = samples.items([1, 0], [1, 1, 0, 0])


def test_scores_per_part_are_computed_from_the_items(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    saved = get_evaluation(db, samples.evaluated(db, run, "tree", ITEMS))
    assert saved.scores.feedback
    assert (saved.scores.feedback.score_pct, saved.scores.feedback.n_items) == (50, 2)
    assert (saved.scores.final.score_pct, saved.scores.final.n_items) == (50, 4)
    assert (saved.scores.overall.score_pct, saved.scores.overall.n_items) == (50, 6)
    assert saved.scores.final.stderr_pct == pytest.approx(100 * (1 / 3) ** 0.5 / 2)
    assert item_scores(db, saved.id) == ITEMS


def test_rates_are_means_over_all_items(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    odd = tuple(
        item.model_copy(update={"is_truncated": k == 0, "is_extracted": k > 2, "output_tokens": k})
        for k, item in enumerate(ITEMS)
    )
    saved = get_evaluation(db, samples.evaluated(db, run, "tree", odd))
    assert (saved.truncation_rate, saved.extraction_failure_rate, saved.mean_output_tokens) == (1 / 6, 0.5, 2.5)


def test_everything_about_an_evaluation_comes_back(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    new = NewEvaluation(
        key=run.evaluation_key("tree"),
        engine=run.plan.engine,
        engine_info={"versions": {"torch": "2"}},
        items=ITEMS,
        load_seconds=1.5,
        generate_seconds=2.5,
        score_seconds=0.5,
    )
    saved = save_evaluation(db, new)
    assert find_evaluation(db, new.key) == saved
    assert (saved.key, saved.engine, saved.engine_info) == (new.key, new.engine, new.engine_info)
    assert (saved.load_seconds, saved.generate_seconds, saved.score_seconds) == (1.5, 2.5, 0.5)


def test_first_evaluation_under_a_key_stays(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    first = samples.evaluated(db, run, "tree", ITEMS)
    assert samples.evaluated(db, run, "tree", samples.items([0], [0])) == first
    assert get_evaluation(db, first).scores.overall.score_pct == 50


def test_other_protocol_engine_or_bytes_are_another_evaluation(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    other = samples.registered(db, samples.plan(2, limit=4))
    samples.evaluated(db, run, "tree", ITEMS)
    assert find_evaluation(db, run.evaluation_key("other")) is None
    assert find_evaluation(db, other.evaluation_key("tree")) is None
    assert find_evaluation(db, run.evaluation_key("tree").model_copy(update={"engine_hash": "x"})) is None


def test_evaluation_with_impossible_items_is_not_stored(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    with pytest.raises(ValueError):
        samples.evaluated(db, run, "tree", ITEMS + ITEMS)
    assert run_query(db, "SELECT count(*) FROM evaluation").rows == ((0,),)
    with pytest.raises(NotFound):
        get_evaluation(db, 1)


def test_baseline_goes_from_queued_to_scored(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    assert get_baseline(db, run.run_id) is None
    assert request_baseline(db, run.run_id).state is SubmissionState.QUEUED
    assert request_baseline(db, run.run_id).state is SubmissionState.QUEUED
    assert mark_baseline_scoring(db, run.run_id).attempts == 1
    assert requeue_baseline(db, run.run_id).state is SubmissionState.QUEUED
    mark_baseline_scoring(db, run.run_id)
    done = set_baseline(db, run.run_id, samples.evaluated(db, run, run.plan.model.tree_hash, ITEMS))
    assert done.scores
    assert (done.scores.final.score_pct, done.is_cached, done.attempts) == (50, False, 2)
    assert request_baseline(db, run.run_id) == done == get_baseline(db, run.run_id)


def test_second_run_finds_the_baseline_in_the_cache(db: WritableDatabase) -> None:
    samples.with_baseline(db, samples.registered(db, samples.plan(1)), ITEMS)
    other = samples.registered(db, samples.plan(2))
    cached = request_baseline(db, other.run_id)
    assert (cached.state, cached.is_cached) == (SubmissionState.SCORED, True)


def test_failed_baseline_has_no_score_and_can_be_asked_for_again(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    request_baseline(db, run.run_id)
    failed = fail_baseline(db, run.run_id, "out of memory")
    assert (failed.state, failed.scores, failed.detail) == (SubmissionState.FAILED, None, "out of memory")
    again = request_baseline(db, run.run_id)
    assert (again.state, again.detail) == (SubmissionState.QUEUED, None)


def test_baseline_of_a_closed_or_unknown_run_is_refused(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.closed(db, run.run_id)
    with pytest.raises(Conflict):
        request_baseline(db, run.run_id)
    with pytest.raises(NotFound):
        mark_baseline_scoring(db, run.run_id)
