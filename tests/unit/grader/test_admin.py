"""The admin application: what the harness tells and asks."""

from __future__ import annotations

from datetime import timedelta

from fakes import Hold
from grader_case import OWNER, AgentSide, Case
from samples import llm_call
from served import wait_until

from harness.domain.admin import (
    CloseRun,
    EventIn,
    FinishRun,
    GraderStats,
    ResourceSampleIn,
    RunStatus,
    SetPhase,
    StartClock,
)
from harness.domain.base import now_utc
from harness.domain.llm import LlmCalls
from harness.domain.runs import EndedBy, Phase, Verdict
from harness.errors import EvaluationFailed
from harness.store.export import export_run
from harness.store.records_llm import llm_spend_of
from harness.store.records_runs import list_events


def finish(case: Case, agent: AgentSide, ended_by: EndedBy = EndedBy.FINISHED) -> RunStatus:
    body = FinishRun(ended_by=ended_by).model_dump_json()
    return RunStatus.model_validate(case.admin.post(f"/runs/{agent.run_id}/finish", body))


def close(case: Case, agent: AgentSide) -> RunStatus:
    return RunStatus.model_validate(case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json()))


def test_a_run_from_registration_to_verdict(case: Case, agent: AgentSide):
    assert case.admin.status(agent.run_id).baseline is not None
    case.admin.post(f"/runs/{agent.run_id}/phase", SetPhase(phase=Phase.AGENT, owner=OWNER).model_dump_json())
    assert case.admin.status(agent.run_id).phase is Phase.AGENT
    agent.submit(agent.write("v1", 0.8))
    assert finish(case, agent).ended_by is EndedBy.FINISHED
    assert close(case, agent).verdict is Verdict.GRADED
    assert close(case, agent).verdict is Verdict.GRADED
    assert agent.client.get("time").status_code == 404


def test_the_baseline_is_scored_once_for_all_runs_of_a_protocol(case: Case, agent: AgentSide):
    generated = case.inference.generated
    other = case.add_run()
    baseline = case.admin.status(other.run_id).baseline
    assert baseline is not None
    assert baseline.is_cached
    assert case.inference.generated == generated


def test_a_baseline_that_failed_twice_says_so_and_can_be_asked_for_again(case: Case):
    def fail() -> None:
        raise EvaluationFailed("words of the engine")

    case.inference.before = fail
    run_id = case.register_only()
    case.admin.post(f"/runs/{run_id}/baseline")
    wait_until(lambda: case.admin.status(run_id).baseline_error is not None)
    assert "words of the engine" in (case.admin.status(run_id).baseline_error or "")
    case.inference.before = lambda: None
    case.admin.post(f"/runs/{run_id}/baseline")
    wait_until(lambda: case.admin.status(run_id).baseline is not None)


def test_registration_is_idempotent(case: Case, agent: AgentSide):
    case.register(case.plan(agent.run_id), agent.token, agent.address)
    assert agent.client.get("time").status_code == 200
    renewed = case.plan(agent.run_id).model_copy(update={"seed": 5})
    body = case.registration(renewed, agent.token, agent.address)
    reply = case.admin.client.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert (reply.status_code, reply.json().keys() >= {"error", "detail", "error_class"}) == (409, True)


def test_the_clock_can_be_set_anew(case: Case, agent: AgentSide):
    deadline = now_utc() + timedelta(seconds=1000)
    clock = StartClock(started_at=now_utc(), deadline=deadline).model_dump_json()
    case.admin.post(f"/runs/{agent.run_id}/clock", clock)
    assert agent.client.get("time").json()["end_time"] == deadline.timestamp()


def test_events_and_samples_are_kept(case: Case, agent: AgentSide):
    case.admin.post(f"/runs/{agent.run_id}/events", EventIn(kind="oom", detail={"a": 1}).model_dump_json())
    sample = ResourceSampleIn(cpu_pct=1, memory_mb=1, disk_mb=1, pids=1)
    case.admin.post(f"/runs/{agent.run_id}/samples", sample.model_dump_json())
    assert [event.kind for event in list_events(case.db, agent.run_id)] == ["oom"]


def test_llm_calls_are_kept_once_also_of_a_closed_run(case: Case, agent: AgentSide):
    calls = LlmCalls(calls=(llm_call(1, agent.run_id), llm_call(2, agent.run_id)))
    case.admin.post(f"/runs/{agent.run_id}/llm-calls", calls.model_dump_json())
    finish(case, agent)
    close(case, agent)
    calls = LlmCalls(calls=(*calls.calls, llm_call(3, agent.run_id)))
    case.admin.post(f"/runs/{agent.run_id}/llm-calls", calls.model_dump_json())
    assert llm_spend_of(case.db, agent.run_id).calls == 3


def test_a_run_closed_while_it_is_scored_wakes_who_waits(case: Case, agent: AgentSide):
    case.inference.is_up = False
    agent.submit_later(agent.write("v1", 0.8))
    finish(case, agent)
    status = close(case, agent)
    assert status.verdict is Verdict.INFRA_VOID
    assert status.open_submissions == 0


def test_a_stopped_run_goes_on_after_a_reopen(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    agent.submit_later(agent.write("v1", 0.8))
    assert hold.reached.wait(10)
    finish(case, agent, EndedBy.STOPPED)
    assert close(case, agent).verdict is Verdict.INTERRUPTED
    case.admin.post(f"/runs/{agent.run_id}/reopen")
    case.inference.before = lambda: None
    hold.opened.set()
    case.register(case.plan(agent.run_id), agent.token, agent.address)
    case.start_clock(agent.run_id)
    assert agent.wait_for(1)["reply"]["score"] is not None


def test_an_exported_run_comes_back_on_another_machine(case: Case, agent: AgentSide, own_case: Case):
    agent.submit(agent.write("v1", 0.8))
    finish(case, agent)
    close(case, agent)
    data = export_run(case.db, agent.run_id).model_dump_json()
    own_case.admin.post("/import", data)
    assert own_case.admin.status(agent.run_id).verdict is Verdict.GRADED


def test_stats_and_active_runs(case: Case, agent: AgentSide):
    stats = GraderStats.model_validate_json(case.admin.client.get("/stats").text)
    assert stats.active_runs == (agent.run_id,)
    assert RunStatus.model_validate_json(case.admin.client.get(f"/runs/{agent.run_id}").text).run_id == agent.run_id
    active = case.admin.client.get("/runs?active=true").json()
    assert [run["run_id"] for run in active] == [agent.run_id]


def test_an_unknown_run_is_a_404_and_nonsense_a_400(case: Case):
    assert case.admin.client.get("/runs/none").status_code == 404
    assert case.admin.client.post("/runs/none/baseline").status_code == 404
    assert case.admin.client.post("/runs", content=b"{").status_code == 400
