"""Tables and published files, from a database with known numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import samples

from harness.domain.runs import EndedBy
from harness.domain.specs import NetworkPolicy
from harness.errors import ErrorClass, NotFound
from harness.report.published import results_csv, run_scores
from harness.report.tables import leaderboard_table, run_table
from harness.store.database import WritableDatabase, open_writer
from harness.store.records_submissions import reject_submission

# Of feedback, final and all items: 25, 50, 37.5 %.
BASE = samples.items([1, 0, 0, 0], [1, 1, 0, 0])
# 75, 75, 75 %: the best on feedback items.
BEST = samples.items([1, 1, 1, 0], [1, 1, 1, 0])
# 50, 100, 75 %: as good as the other one over all items, but later.
LATER = samples.items([1, 1, 0, 0], [1, 1, 1, 1])
PUBLISHED = (
    "run_id,timestamp,task,agent,base_model,baseline,best_score,improvement,submissions,duration_s,success,workspace,"
    "driver_model,protocol,final_score,verdict,label"
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[WritableDatabase]:
    database = open_writer(tmp_path / "harness.db")
    samples.graded(database, samples.plan(1), BASE, BEST, LATER)
    empty = samples.registered(database, samples.plan(2, agent="noop"))
    reject_submission(database, samples.submitted(database, empty.run_id).id, ErrorClass.NO_WEIGHTS, "empty")
    samples.closed(database, empty.run_id, EndedBy.FINISHED)
    yield database
    database.close()


def test_runs_have_their_headline(db: WritableDatabase) -> None:
    graded, empty = run_table(db)
    assert (graded["state"], graded["baseline_pct"], graded["final_pct"], graded["improvement_pct"]) == (
        "graded",
        50,
        75,
        25,
    )
    # Of four draws of 0, 0, 1, 0, at most three are the 1 in 99.6 % of the cases, at most two in 94.9 %.
    assert (graded["low"], graded["high"]) == (0.0, 75.0)
    assert (empty["state"], empty["final_pct"], empty["submissions"]) == ("no_submission", None, 1)


def test_leaderboard_has_a_line_per_agent_best_first(db: WritableDatabase) -> None:
    lines = leaderboard_table(db)
    assert [(line["agent"], line["mean_improvement_pct"], line["n_runs"]) for line in lines] == [
        ("example", 25, 1),
        ("noop", 0, 1),
    ]


def test_results_have_the_published_columns_and_figures(db: WritableDatabase) -> None:
    text = results_csv(db)
    assert text.splitlines()[0] == PUBLISHED
    graded, empty = csv.DictReader(io.StringIO(text))
    assert (graded["baseline"], graded["best_score"], graded["improvement"]) == ("37.5", "75.0", "37.5")
    assert (graded["success"], graded["verdict"], graded["final_score"]) == ("True", "graded", "75.0")
    assert (graded["submissions"], graded["duration_s"], graded["driver_model"]) == ("2", "100.0", "")
    assert graded["workspace"] == f"runs/{graded['run_id']}/workspace"
    assert (empty["success"], empty["best_score"], empty["improvement"], empty["submissions"]) == ("False", "", "", "0")


def test_results_of_chosen_runs(db: WritableDatabase) -> None:
    run_id = samples.plan(2, agent="noop").run_id
    assert [row["run_id"] for row in csv.DictReader(io.StringIO(results_csv(db, (run_id,))))] == [run_id]
    with pytest.raises(NotFound):
        results_csv(db, ("none",))


def test_scores_have_every_submission_and_both_ways_of_counting(db: WritableDatabase) -> None:
    scores = run_scores(db, samples.plan(1).run_id)
    assert (scores.baseline_score, scores.improvement, scores.total_submissions) == (37.5, 37.5, 2)
    assert scores.best
    # Equal over all items: the earlier one.
    assert (scores.best.submission_id, scores.best.score, scores.headline_submission_id) == (1, 75, 1)
    assert (scores.final_score, scores.final_improvement) == (75, 25)
    assert [(one.score, one.feedback_score, one.final_score) for one in scores.submissions] == [
        (75, 75, 75),
        (75, 50, 100),
    ]
    other = run_scores(db, samples.plan(2, agent="noop").run_id)
    refused = other.submissions[0]
    # As in the replies of /submit and in results.csv: a rejected one is listed, and not counted.
    assert (other.total_submissions, len(other.submissions)) == (0, 1)
    assert (refused.state, refused.score, refused.error_class) == ("rejected", None, "no_weights")


def test_what_reached_the_open_network_is_labelled_everywhere(tmp_path: Path) -> None:
    database = open_writer(tmp_path / "open.db")
    try:
        plan = samples.plan(1, network=NetworkPolicy.ALLOWLIST, allowed_hosts=("pypi.org",))
        samples.graded(database, plan, BASE, BEST)
        samples.graded(database, samples.plan(2), BASE, BEST)
        assert [row["label"] for row in run_table(database)] == ["open-network", None]
        assert [row["label"] for row in leaderboard_table(database)] == [None, "open-network"]
        assert [row["label"] for row in csv.DictReader(io.StringIO(results_csv(database)))] == ["open-network", ""]
        assert run_scores(database, plan.run_id).label == "open-network"
    finally:
        database.close()
