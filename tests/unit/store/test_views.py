"""The views for people, against numbers worked out by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import samples
from samples import START

from harness.domain.admin import StartClock
from harness.domain.findings import Finding
from harness.domain.runs import EndedBy, RunKind
from harness.domain.specs import EngineSpec, Grading, Limits, Protocol
from harness.errors import ErrorClass
from harness.store.database import WritableDatabase
from harness.store.query import run_query
from harness.store.records_evaluations import fail_baseline, request_baseline
from harness.store.records_findings import add_findings
from harness.store.records_llm import add_llm_calls
from harness.store.records_runs import start_clock
from harness.store.records_submissions import mark_failed, reject_submission

# Feedback 25 %, final 50 %, all items 37.5 %.
BASE = samples.items([1, 0, 0, 0], [1, 1, 0, 0])
# Feedback 75 %, final 100 %.
GOOD = samples.items([1, 1, 1, 0], [1, 1, 1, 1])
# Feedback 50 %, final 75 %.
FAIR = samples.items([1, 1, 0, 0], [1, 1, 1, 0])
# Feedback 25 %, final 0 %.
POOR = samples.items([1, 0, 0, 0], [0, 0, 0, 0])


def rows(db: WritableDatabase, query: str) -> list[dict[str, Any]]:
    result = run_query(db, query)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def ended(db: WritableDatabase, plan: samples.RunPlan, ended_by: EndedBy) -> None:
    samples.registered(db, plan)
    samples.closed(db, plan.run_id, ended_by)


def test_leaderboard_means_count_failures_as_zero_and_leave_void_runs_out(db: WritableDatabase) -> None:
    samples.graded(db, samples.plan(1), BASE, GOOD)  # +50
    samples.graded(db, samples.plan(2), BASE, POOR)  # -50
    samples.graded(db, samples.plan(3), BASE, FAIR, POOR)  # +25
    ended(db, samples.plan(4), EndedBy.FINISHED)  # no_submission: 0
    ended(db, samples.plan(5), EndedBy.CRASH)  # agent_failed: 0
    ended(db, samples.plan(6), EndedBy.INFRASTRUCTURE)
    ended(db, samples.plan(7), EndedBy.STOPPED)
    samples.registered(db, samples.plan(8))  # still runs
    samples.graded(db, samples.plan(9, limit=8), BASE, GOOD)  # a trial
    (line,) = rows(db, "SELECT * FROM v_leaderboard")
    assert (line["benchmark"], line["protocol"], line["base_model"], line["agent"]) == (
        "sums",
        "standard",
        "tiny",
        "example",
    )
    assert line["n_runs"] == 5
    assert line["mean_improvement_pct"] == pytest.approx(25 / 5)
    assert line["mean_graded_improvement_pct"] == pytest.approx(25 / 3)
    assert line["best_improvement_pct"] == 50
    assert line["mean_baseline_pct"] == 50
    assert line["mean_final_pct"] == pytest.approx((100 + 0 + 75) / 3)
    counted = {name: line[name] for name in line if name.startswith("n_")}
    assert counted == {
        "n_runs": 5,
        "n_graded": 3,
        "n_no_submission": 1,
        "n_agent_failed": 1,
        "n_infra_void": 1,
        "n_interrupted": 1,
    }


@pytest.mark.parametrize(
    "other",
    [
        {"agent": "other"},
        {"protocol": Protocol.PAPER},
        {"driver_model": "gpt-x"},
        {"limits": Limits(timeout_s=60)},
        {"engine": EngineSpec(image="x", device="gpu")},
        {"model": samples.plan().model.model_copy(update={"repo_id": "small"})},
        {"model": samples.plan().model.model_copy(update={"tree_hash": "f" * 64})},
        {"benchmark": samples.plan().benchmark.model_copy(update={"digest": "f" * 64})},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_differs_in_what_matters_has_its_own_line(db: WritableDatabase, other: dict[str, Any]) -> None:
    samples.graded(db, samples.plan(1), BASE, GOOD)
    samples.graded(db, samples.plan(2, **other), BASE, GOOD)
    assert [line["n_runs"] for line in rows(db, "SELECT * FROM v_leaderboard")] == [1, 1]


def test_seed_and_image_do_not_split_a_line(db: WritableDatabase) -> None:
    samples.graded(db, samples.plan(1), BASE, GOOD)
    samples.graded(db, samples.plan(2, seed=7, images={"agent": "harness-agent:2"}), BASE, GOOD)
    assert [line["n_runs"] for line in rows(db, "SELECT * FROM v_leaderboard")] == [2]


def test_what_was_scored_outside_a_run_is_in_no_leaderboard(db: WritableDatabase) -> None:
    grading = Grading(path="/models/mine", has_base=True)
    run = samples.graded(db, samples.plan(1, agent="none", grading=grading), BASE, GOOD)
    assert rows(db, "SELECT kind, verdict, improvement_pct FROM v_runs") == [
        {"kind": "grade", "verdict": "graded", "improvement_pct": 50}
    ]
    assert rows(db, "SELECT * FROM v_leaderboard") == rows(db, "SELECT * FROM v_best") == []
    assert run.plan.kind is RunKind.GRADE


def test_runs_tell_how_sure_they_are_and_how_the_outputs_changed(db: WritableDatabase) -> None:
    cut = tuple(item.model_copy(update={"is_truncated": True, "output_tokens": 9}) for item in GOOD)
    run = samples.graded(db, samples.plan(1), BASE, POOR, cut)
    (line,) = rows(db, "SELECT * FROM v_runs")
    assert run.headline
    gain = run.headline.improvement
    assert gain
    assert (line["improvement_probability"], line["improvement_p_value"]) == (gain.probability, gain.p_value)
    assert (line["items_won"], line["items_lost"], line["items_tied"]) == (2, 0, 2)
    assert (line["final_low_pct"], line["final_high_pct"]) == (run.headline.score.low_pct, 100)
    assert (line["truncation_rate"], line["baseline_truncation_rate"]) == (1, 0)
    assert (line["mean_output_tokens"], line["baseline_mean_output_tokens"]) == (9, 4)
    assert rows(db, "SELECT final_truncation_rate, final_mean_output_tokens FROM v_submissions WHERE is_best") == [
        {"final_truncation_rate": 1, "final_mean_output_tokens": 9}
    ]


def test_paper_lines_are_marked_as_selected(db: WritableDatabase) -> None:
    samples.graded(db, samples.plan(1, protocol=Protocol.PAPER), BASE, GOOD)
    (line,) = rows(db, "SELECT * FROM v_leaderboard")
    assert (line["is_selected"], line["best_improvement_pct"]) == (1, 50)


def test_runs_show_headline_and_the_published_way_beside_it(db: WritableDatabase) -> None:
    # POOR is not the best on feedback items; GOOD has 7 of 8 items right.
    run = samples.graded(db, samples.plan(), BASE, POOR, GOOD, FAIR)
    reject_submission_of_another(db)
    line = next(row for row in rows(db, "SELECT * FROM v_runs") if row["run_id"] == run.run_id)
    assert (line["verdict"], line["submissions"], line["scored"], line["best_submission"]) == ("graded", 3, 3, 2)
    assert (line["baseline_pct"], line["final_pct"], line["improvement_pct"]) == (50, 100, 50)
    assert line["improvement_low_pct"] < 50 < line["improvement_high_pct"]
    assert (line["all_baseline_pct"], line["all_best_pct"], line["all_improvement_pct"]) == (37.5, 87.5, 50)
    assert (line["duration_s"], line["timeout_s"], line["findings"], line["is_imported"]) == (100, 600, 0, 0)


def reject_submission_of_another(db: WritableDatabase) -> None:
    other = samples.registered(db, samples.plan(99))
    reject_submission(db, samples.submitted(db, other.run_id).id, ErrorClass.NO_WEIGHTS, "the folder is empty")


def test_submissions_show_scores_or_reason(db: WritableDatabase) -> None:
    samples.graded(db, samples.plan(), BASE, POOR, GOOD)
    reject_submission_of_another(db)
    lines = rows(db, "SELECT * FROM v_submissions")
    assert [(row["submission_id"], row["state"], row["feedback_pct"], row["is_best"]) for row in lines] == [
        (1, "scored", 25, 0),
        (2, "scored", 75, 1),
        (1, "rejected", None, 0),
    ]
    assert (lines[2]["error_class"], lines[2]["detail"]) == ("no_weights", "the folder is empty")


def test_best_is_one_run_per_benchmark_protocol_and_model(db: WritableDatabase) -> None:
    samples.graded(db, samples.plan(1), BASE, FAIR)
    first = samples.graded(db, samples.plan(2), BASE, POOR, GOOD)
    samples.graded(db, samples.plan(3, agent="late"), BASE, GOOD)
    paper = samples.graded(db, samples.plan(4, protocol=Protocol.PAPER), BASE, FAIR)
    lines = rows(db, "SELECT * FROM v_best")
    assert [(row["run_id"], row["protocol"], row["is_selected"]) for row in lines] == [
        (paper.run_id, "paper", 1),
        (first.run_id, "standard", 0),
    ]
    assert (lines[1]["submission_id"], lines[1]["improvement_pct"]) == (2, 50)


def test_triage_names_everything_to_look_at_and_nothing_else(db: WritableDatabase) -> None:
    clean = samples.graded(db, samples.plan(1), BASE, GOOD)
    bad = samples.registered(db, samples.plan(2))
    request_baseline(db, bad.run_id)
    odd = samples.registered(db, samples.plan(3, limit=8))
    request_baseline(db, odd.run_id)
    fail_baseline(db, odd.run_id, "no GPU")
    mark_failed(db, samples.queued(db, bad.run_id, "x").id, ErrorClass.EVALUATION_FAILED, "engine broke")
    cut = tuple(item.model_copy(update={"is_truncated": True, "is_extracted": False}) for item in FAIR)
    samples.scored(db, bad, "y", cut)
    clock = Finding(kind="clock", severity="warning", detail="clock went back")
    moved = Finding(submission_number=1, kind="lineage", severity="serious", detail="not the base")
    add_findings(db, bad.run_id, [clock, moved, Finding(kind="lineage", severity="info", detail="as it should be")])
    samples.closed(db, odd.run_id, EndedBy.INFRASTRUCTURE)
    found = {(row["run_id"], row["what"], row["kind"]) for row in rows(db, "SELECT * FROM v_triage")}
    assert found == {
        (bad.run_id, "submission 1", "evaluation_failed"),
        (bad.run_id, "submission 2", "truncated outputs"),
        (bad.run_id, "submission 2", "unread outputs"),
        (bad.run_id, "finding", "clock"),
        (bad.run_id, "submission 1", "lineage"),
        (odd.run_id, "baseline", "failed"),
        (odd.run_id, "verdict", "infra_void"),
    }
    assert not any(run_id == clean.run_id for run_id, _, _ in found)


def test_spend_sums_calls_per_run_and_model(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    calls = [
        samples.llm_call(number, run.run_id, cost).model_copy(update={"http_status": status})
        for number, (status, cost) in enumerate(((200, 0.5), (200, 0.25), (429, 0.0)))
    ]
    add_llm_calls(db, run.run_id, calls)
    (line,) = rows(db, "SELECT calls, failed_calls, input_tokens, cost_usd, seconds FROM v_llm_spend")
    assert line == {"calls": 3, "failed_calls": 1, "input_tokens": 21, "cost_usd": 0.75, "seconds": 4.5}


def test_a_run_without_a_submission_shows_its_baseline_all_the_same(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan(1))
    samples.with_baseline(db, run, BASE)
    samples.closed(db, run.run_id)
    (line,) = rows(db, "SELECT verdict, baseline_pct FROM v_runs")
    assert line == {"verdict": "no_submission", "baseline_pct": 50.0}


def test_the_pause_of_a_stopped_run_is_no_agent_time(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan(1, limits=Limits(timeout_s=200)))
    # Stopped for 70 s: the deadline moved by as much, the start did not.
    later = StartClock(started_at=START, deadline=START + timedelta(seconds=270))
    start_clock(db, run.run_id, later)
    closed = samples.closed(db, run.run_id)
    (line,) = rows(db, "SELECT duration_s FROM v_runs")
    assert line["duration_s"] == pytest.approx(30, abs=0.2)
    assert closed.agent_time_s == pytest.approx(30)
