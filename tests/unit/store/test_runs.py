"""Runs from registration to verdict."""

from __future__ import annotations

from datetime import timedelta

import pytest
import samples
from samples import START

from harness.domain.admin import (
    ArtifactIn,
    CloseRun,
    EventIn,
    FinishRun,
    RegisterRun,
    ResourceSampleIn,
    SetPhase,
    StartClock,
)
from harness.domain.runs import EndedBy, Phase, SubmissionState, Verdict
from harness.domain.specs import Protocol
from harness.errors import Conflict, ErrorClass, NotFound, RunEnded
from harness.store.database import WritableDatabase
from harness.store.query import run_query
from harness.store.records_closing import close_run, reopen_run
from harness.store.records_queue import submissions_of
from harness.store.records_runs import (
    add_event,
    add_sample,
    find_run_by_token,
    finish_run,
    get_run,
    list_events,
    list_runs,
    register_run,
    set_phase,
    start_clock,
)
from harness.store.records_submissions import mark_failed, mark_scoring, reject_submission

RIGHT, WRONG = samples.items([1, 1], [1, 1]), samples.items([0, 0], [0, 0])


def register(plan: samples.RunPlan, token: str = "t") -> RegisterRun:
    return RegisterRun(plan=plan, owner=samples.OWNER, token_sha256=token, subnet="10.213.0.0/28")


def test_registering_twice_renews_token_and_keeps_the_rest(db: WritableDatabase) -> None:
    first = register_run(db, register(samples.plan(), "one"))
    set_phase(db, first.run_id, SetPhase(phase=Phase.BASELINE, owner=samples.OWNER))
    second = register_run(db, register(samples.plan(), "two"))
    assert (second.phase, second.token_sha256) == (Phase.BASELINE, "two")
    assert len(list_runs(db)) == 1


def test_an_id_is_not_taken_by_another_plan(db: WritableDatabase) -> None:
    register_run(db, register(samples.plan()))
    with pytest.raises(Conflict, match="another plan"):
        register_run(db, register(samples.plan(seed=9)))


def test_record_is_what_was_planned(db: WritableDatabase) -> None:
    plan = samples.plan(protocol=Protocol.PAPER, driver_model="gpt-x", limit=5)
    run = register_run(db, register(plan))
    assert run.plan == plan
    assert get_run(db, plan.run_id) == run
    assert (run.task_protocol, run.engine_hash) == (plan.task_protocol(), plan.engine.hash())
    assert run.base_model_hash == plan.model.hash()


def test_token_finds_its_run_only(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.registered(db, samples.plan(2))
    found = find_run_by_token(db, run.token_sha256)
    assert found
    assert found.run_id == run.run_id
    assert find_run_by_token(db, "") is None
    assert find_run_by_token(db, "unknown") is None


def test_unknown_run_is_not_found(db: WritableDatabase) -> None:
    for call in (
        lambda: get_run(db, "none"),
        lambda: set_phase(db, "none", SetPhase(phase=Phase.AGENT, owner=samples.OWNER)),
        lambda: add_event(db, "none", EventIn(kind="x")),
        lambda: close_run(db, "none", CloseRun()),
        lambda: list_events(db, "none"),
    ):
        with pytest.raises(NotFound, match="no run none"):
            call()


def test_clock_keeps_its_first_start_and_takes_a_later_deadline(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    later = START + timedelta(hours=2)
    again = start_clock(db, run.run_id, StartClock(started_at=START + timedelta(hours=1), deadline=later))
    assert (again.started_at, again.deadline) == (START, later)
    exact = StartClock(started_at=START + timedelta(seconds=1), deadline=later, is_exact=True)
    assert start_clock(db, run.run_id, exact).started_at == exact.started_at


def test_finishing_twice_keeps_the_first_answer(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.CRASH, exit_code=3, detail="boom"), at=START)
    run = finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.FINISHED, exit_code=0))
    assert (run.ended_by, run.exit_code, run.detail, run.agent_ended_at) == (EndedBy.CRASH, 3, "boom", START)
    assert run.phase is Phase.FINISHING
    with pytest.raises(RunEnded):
        start_clock(db, run.run_id, StartClock(started_at=START, deadline=START))


def test_events_and_samples_are_kept_in_order(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    add_event(db, run.run_id, EventIn(kind="one", detail={"a": [1, None, "ü"]}), at=START)
    add_event(db, run.run_id, EventIn(kind="two"), at=START)
    add_sample(db, run.run_id, ResourceSampleIn(cpu_pct=1.5, memory_mb=2, disk_mb=3, pids=4), at=START)
    assert [(event.kind, event.detail) for event in list_events(db, run.run_id)] == [
        ("one", {"a": [1, None, "ü"]}),
        ("two", {}),
    ]
    assert run_query(db, "SELECT cpu_pct, pids FROM resource_sample").rows == ((1.5, 4),)


def test_times_are_text_that_sqlite_reads(db: WritableDatabase) -> None:
    samples.registered(db, samples.plan())
    row = run_query(db, "SELECT started_at, strftime('%s', started_at) FROM run").rows[0]
    assert row == ("2026-01-02T03:04:05.000000Z", str(int(START.timestamp())))


@pytest.mark.parametrize(
    ("ended_by", "verdict"),
    [
        (EndedBy.FINISHED, Verdict.NO_SUBMISSION),
        (EndedBy.DEADLINE, Verdict.NO_SUBMISSION),
        (EndedBy.OUT_OF_MEMORY, Verdict.AGENT_FAILED),
        (EndedBy.INFRASTRUCTURE, Verdict.INFRA_VOID),
        (EndedBy.STOPPED, Verdict.INTERRUPTED),
    ],
)
def test_verdict_without_a_score(db: WritableDatabase, ended_by: EndedBy, verdict: Verdict) -> None:
    run = samples.registered(db, samples.plan())
    rejected = samples.submitted(db, run.run_id)
    reject_submission(db, rejected.id, ErrorClass.NO_WEIGHTS, "no weights")
    closed = samples.closed(db, run.run_id, ended_by)
    assert (closed.verdict, closed.headline, closed.phase) == (verdict, None, Phase.ENDED)


def test_run_with_a_score_is_graded_whatever_else_happened(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.with_baseline(db, run, WRONG)
    samples.scored(db, run, "one", RIGHT)
    failed = samples.queued(db, run.run_id, "two")
    mark_failed(db, failed.id, ErrorClass.EVALUATION_FAILED, "engine broke")
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.CRASH))
    closed = close_run(db, run.run_id, CloseRun(verdict=Verdict.INFRA_VOID))
    assert (closed.verdict, closed.ended_by) == (Verdict.GRADED, EndedBy.CRASH)


@pytest.mark.parametrize(
    ("error_class", "verdict"),
    [
        (ErrorClass.EVALUATION_FAILED, Verdict.INFRA_VOID),
        (ErrorClass.LOAD_FAILED, Verdict.AGENT_FAILED),
        (ErrorClass.TOO_SLOW, Verdict.AGENT_FAILED),
        (ErrorClass.UNSCORABLE, Verdict.AGENT_FAILED),
    ],
)
def test_only_the_graders_own_failures_make_a_run_void(
    db: WritableDatabase, error_class: ErrorClass, verdict: Verdict
) -> None:
    run = samples.registered(db, samples.plan())
    mark_failed(db, samples.queued(db, run.run_id, "x").id, error_class, "why")
    assert samples.closed(db, run.run_id).verdict is verdict


def test_run_that_never_reached_its_agent_is_void_or_what_the_harness_says(db: WritableDatabase) -> None:
    first = samples.registered(db, samples.plan(1), is_started=False)
    second = samples.registered(db, samples.plan(2), is_started=False)
    assert close_run(db, first.run_id, CloseRun()).verdict is Verdict.INFRA_VOID
    assert close_run(db, second.run_id, CloseRun(verdict=Verdict.INTERRUPTED)).verdict is Verdict.INTERRUPTED


def test_closing_fails_what_is_still_open(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.queued(db, run.run_id, "x")
    assert samples.closed(db, run.run_id).verdict is Verdict.INFRA_VOID
    left = submissions_of(db, run.run_id)[0]
    assert (left.state, left.error_class) == (SubmissionState.FAILED, ErrorClass.GRADER_TROUBLE)


def test_stopped_run_keeps_its_open_submissions_and_can_go_on(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    mark_scoring(db, samples.queued(db, run.run_id, "x").id)
    assert samples.closed(db, run.run_id, EndedBy.STOPPED).verdict is Verdict.INTERRUPTED
    assert submissions_of(db, run.run_id)[0].state is SubmissionState.SCORING
    again = reopen_run(db, run.run_id)
    assert (again.verdict, again.ended_by, again.agent_ended_at, again.closed_at) == (None, None, None, None)
    assert reopen_run(db, run.run_id) == again
    assert list_runs(db, active_only=True) == (again,)


def test_run_that_ended_by_itself_cannot_be_reopened(db: WritableDatabase) -> None:
    run = samples.graded(db, samples.plan(), WRONG, RIGHT)
    with pytest.raises(Conflict, match="has ended"):
        reopen_run(db, run.run_id)
    with pytest.raises(Conflict, match="closed"):
        set_phase(db, run.run_id, SetPhase(phase=Phase.AGENT, owner=samples.OWNER))


def test_a_resumed_run_keeps_the_files_of_its_last_end(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    old, new = (ArtifactIn(path=name, size_bytes=3, sha256="e" * 64) for name in ("workspace/old", "workspace/new"))
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.STOPPED))
    close_run(db, run.run_id, CloseRun(artifacts=(old,)))
    reopen_run(db, run.run_id)
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.FINISHED))
    close_run(db, run.run_id, CloseRun(artifacts=(new,)))
    assert run_query(db, "SELECT path FROM artifact").rows == (("workspace/new",),)


def test_closing_twice_changes_nothing(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    artifact = ArtifactIn(path="agent.log", size_bytes=3, sha256="e" * 64)
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.FINISHED))
    first = close_run(db, run.run_id, CloseRun(artifacts=(artifact,)))
    assert close_run(db, run.run_id, CloseRun(verdict=Verdict.INFRA_VOID)) == first
    assert run_query(db, "SELECT path, size_bytes FROM artifact").rows == (("agent.log", 3),)
    assert list_runs(db, active_only=True) == ()
