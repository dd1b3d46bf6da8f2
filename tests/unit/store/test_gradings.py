"""Gradings in the record: repeats beside the cache, verdicts without an agent, and lists that leave them out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import samples

from harness.domain.runs import EndedBy, SubmissionState, Verdict
from harness.domain.specs import Grading, RunPlan
from harness.errors import UsageError
from harness.report.grading import grading_report
from harness.report.published import results_csv
from harness.report.tables import grading_table, leaderboard_table, run_table
from harness.store.database import WritableDatabase, open_writer
from harness.store.export import export_run
from harness.store.importing import import_run
from harness.store.models import ItemScore, NewEvaluation, RunRecord
from harness.store.records_evaluations import (
    fail_baseline,
    find_evaluation,
    get_evaluation,
    mark_baseline_scoring,
    request_baseline,
    save_evaluation,
    set_baseline,
)
from harness.store.repeats import agreement_of

ITEMS = samples.items([1, 0], [1, 1, 0])
# The same scores; one answer is another one.
OTHER = tuple(item.model_copy(update={"output": "else"}) if item.item_id == "z1" else item for item in ITEMS)


def grade_plan(number: int = 1, *, has_base: bool = False, is_anew: bool = False) -> RunPlan:
    grading = Grading(path="/models/mine", has_base=has_base, is_anew=is_anew)
    return samples.plan(number, agent="none", grading=grading)


def evaluation(run: RunRecord, items: tuple[ItemScore, ...]) -> NewEvaluation:
    return NewEvaluation(key=run.evaluation_key("t"), engine=run.plan.engine, items=items)


def scored_alone(db: WritableDatabase, run_plan: RunPlan, items: tuple[ItemScore, ...] = ITEMS) -> RunRecord:
    """A grading whose model was scored as a baseline is."""
    run = samples.registered(db, run_plan, is_started=False)
    if not request_baseline(db, run.run_id).is_cached:
        mark_baseline_scoring(db, run.run_id)
        tree = run.plan.model.tree_hash
        made = NewEvaluation(key=run.evaluation_key(tree), engine=run.plan.engine, items=items)
        saved = save_evaluation(db, made, is_anew=run.plan.is_baseline_anew)
        set_baseline(db, run.run_id, saved.id)
    return samples.closed(db, run.run_id)


def test_a_repeat_is_kept_beside_the_first_which_stays_the_cache(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    first = save_evaluation(db, evaluation(run, ITEMS))
    repeats = [save_evaluation(db, evaluation(run, OTHER), is_anew=True).id for _ in range(2)]
    assert len({first.id, *repeats}) == 3
    assert find_evaluation(db, first.key).id == first.id
    assert save_evaluation(db, evaluation(run, OTHER)).id == first.id


def test_the_first_that_is_made_anew_is_the_cache_and_no_repeat(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    only = save_evaluation(db, evaluation(run, ITEMS), is_anew=True)
    assert find_evaluation(db, only.key).id == only.id
    assert agreement_of(db, only.id) is None


def test_a_repeat_tells_on_how_many_items_it_agrees(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    first = save_evaluation(db, evaluation(run, ITEMS))
    same = agreement_of(db, save_evaluation(db, evaluation(run, ITEMS), is_anew=True).id)
    assert (same.first_evaluation_id, same.n_equal, same.n_items, same.differing_items) == (first.id, 5, 5, ())
    other = agreement_of(db, save_evaluation(db, evaluation(run, OTHER), is_anew=True).id)
    assert (other.n_equal, other.n_items, other.differing_items) == (4, 5, ("z1",))


def test_items_that_only_one_of_two_has_do_not_agree(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    save_evaluation(db, evaluation(run, ITEMS))
    fewer = agreement_of(db, save_evaluation(db, evaluation(run, ITEMS[1:]), is_anew=True).id)
    assert (fewer.n_equal, fewer.n_items) == (4, 5)


def test_a_model_of_its_own_is_graded_by_its_baseline(db: WritableDatabase) -> None:
    run = scored_alone(db, grade_plan())
    assert (run.verdict, run.headline) == (Verdict.GRADED, None)
    report = grading_report(db, run.run_id)
    assert (report.model, report.base_model, report.score.score_pct) == ("/models/mine", None, pytest.approx(200 / 3))
    assert report.measured.is_stored is False


def test_one_whose_model_could_not_be_scored_is_not_graded(db: WritableDatabase) -> None:
    run = samples.registered(db, grade_plan(), is_started=False)
    request_baseline(db, run.run_id)
    fail_baseline(db, run.run_id, "load_failed: no such architecture")
    assert samples.closed(db, run.run_id, EndedBy.CRASH).verdict is Verdict.AGENT_FAILED
    report = grading_report(db, run.run_id)
    assert (report.score, report.measured, report.detail) == (None, None, "load_failed: no such architecture")


def test_a_stored_baseline_stands_in_unless_it_is_to_be_made_anew(db: WritableDatabase) -> None:
    first = scored_alone(db, grade_plan(1))
    assert request_baseline(db, samples.registered(db, grade_plan(2)).run_id).is_cached
    again = samples.registered(db, grade_plan(3, is_anew=True))
    assert request_baseline(db, again.run_id).state is SubmissionState.QUEUED
    against_base = samples.registered(db, grade_plan(4, is_anew=True, has_base=True))
    assert request_baseline(db, against_base.run_id).evaluation_id is not None
    assert grading_report(db, first.run_id).agreement is None


def test_a_repeated_grading_reports_its_agreement(db: WritableDatabase) -> None:
    scored_alone(db, grade_plan(1))
    again = scored_alone(db, grade_plan(2, is_anew=True), OTHER)
    assert grading_report(db, again.run_id).agreement.n_equal == 4


def test_with_a_base_the_improvement_is_paired(db: WritableDatabase) -> None:
    run = samples.graded(db, grade_plan(has_base=True), samples.items([0, 0], [0, 0, 0]), ITEMS)
    report = grading_report(db, run.run_id)
    assert (report.base_model, report.baseline.score_pct) == ("tiny", 0)
    assert report.improvement.points == pytest.approx(200 / 3)


def test_a_run_of_an_agent_is_no_grading(db: WritableDatabase) -> None:
    run = samples.graded(db, samples.plan(), ITEMS, ITEMS)
    with pytest.raises(UsageError):
        grading_report(db, run.run_id)


def test_no_list_of_runs_has_gradings_in_it(db: WritableDatabase) -> None:
    alone = scored_alone(db, grade_plan(1))
    against_base = samples.graded(db, grade_plan(2, has_base=True), ITEMS, OTHER)
    assert (run_table(db), leaderboard_table(db), len(results_csv(db).splitlines())) == ([], [], 1)
    rows = {row["run_id"]: row for row in grading_table(db)}
    assert rows[alone.run_id]["base"] is None
    assert rows[alone.run_id]["final_pct"] == pytest.approx(66.67)
    assert (rows[against_base.run_id]["base"], rows[against_base.run_id]["improvement_pct"]) == ("tiny", 0)


@pytest.fixture
def other_db(migrated: Path, tmp_path: Path) -> Iterator[WritableDatabase]:
    path = tmp_path / "other" / "harness.db"
    path.parent.mkdir()
    shutil.copyfile(migrated, path)
    database = open_writer(path)
    yield database
    database.close()


def test_gradings_can_be_moved_to_another_database(db: WritableDatabase, other_db: WritableDatabase) -> None:
    first, again = scored_alone(db, grade_plan(1)), scored_alone(db, grade_plan(2, is_anew=True), OTHER)
    for run in (first, again):
        assert import_run(other_db, export_run(db, run.run_id).model_dump_json().encode()).verdict is Verdict.GRADED
    # Theirs is not ours: nothing says in which order the two were made.
    assert grading_report(other_db, again.run_id).agreement is None
    assert get_evaluation(other_db, 1).scores == get_evaluation(db, 1).scores
    export = export_run(db, first.run_id)
    forged = export.model_copy(update={"run": export.run.model_copy(update={"verdict": Verdict.NO_SUBMISSION})})
    with pytest.raises(UsageError, match="verdict does not fit"):
        import_run(other_db, forged.model_dump_json().encode())
