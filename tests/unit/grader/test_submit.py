"""`POST /submit`: the published reply, and every way in which it can be refused."""

from __future__ import annotations

import threading
from datetime import datetime

import pytest
from fakes import Hold
from grader_case import ENGINE, N_ITEMS, AgentSide, Case
from served import wait_until

from harness.domain.admin import CloseRun, FinishRun
from harness.domain.runs import EndedBy
from harness.domain.specs import Limits, Protocol
from harness.errors import EvaluationFailed, LoadFailed, ServiceUnavailable, TooSlow
from harness.grader import worker

PUBLISHED = {
    "submission_id", "score", "baseline_score", "improvement", "best", "total_submissions", "timestamp", "model_path",
    "elapsed_seconds",
}  # fmt: skip


def error_of(reply) -> tuple[int, str]:
    body = reply.json()
    assert {"error", "detail", "error_class"} <= body.keys(), body
    return reply.status_code, body["error_class"]


def test_the_published_reply(agent: AgentSide):
    reply = agent.submit(agent.write("v1", 0.8)).json()
    assert reply.keys() == PUBLISHED | {"stderr", "note"}
    assert 70 < reply["score"] < 90
    assert reply["improvement"] == round(reply["score"] - reply["baseline_score"], 2)
    assert reply["best"] == {"submission_id": 1, "score": reply["score"]}
    assert (reply["submission_id"], reply["total_submissions"], reply["model_path"]) == (1, 1, "output/v1")
    assert datetime.fromisoformat(reply["timestamp"]).tzinfo is not None


def test_an_absolute_path_below_the_workspace_is_meant_likewise(agent: AgentSide):
    agent.write("v1", 0.8)
    assert agent.submit("/workspace/output/v1").json()["model_path"] == "output/v1"


def test_the_best_so_far_is_kept_in_later_replies(agent: AgentSide):
    first = agent.submit(agent.write("v1", 0.9)).json()
    second = agent.submit(agent.write("v2", 0.4)).json()
    assert second["best"] == {"submission_id": 1, "score": first["score"]}
    assert second["total_submissions"] == 2


def test_gpu_and_unknown_fields_are_ignored_with_a_note(agent: AgentSide):
    reply = agent.submit(agent.write("v1", 0.8), gpu="0", colour="red").json()
    assert "gpu" in reply["note"]
    assert "unknown field" in reply["note"]


def test_standard_scores_are_rounded_so_that_items_cannot_be_told_apart(agent: AgentSide):
    shown = [agent.submit(agent.write(f"v{n}", 0.6 + n / 500)).json() for n in range(4)]
    assert all(reply["score"] % 5 == 0 and reply["stderr"] == 5 for reply in shown), shown
    assert len({reply["score"] for reply in shown}) < 4


def test_final_items_are_in_no_reply(case: Case, agent: AgentSide):
    number = agent.submit(agent.write("v1", 0.8)).json()["submission_id"]
    status = case.admin.status(agent.run_id)
    assert status.submissions[0].final_pct is not None
    texts = [agent.client.get(path).text for path in ("submissions", f"submissions/{number}", "time", "health")]
    assert not any("final" in text for text in texts)


def test_paper_scores_are_over_all_items_and_not_rounded(case: Case):
    agent = case.add_run(protocol=Protocol.PAPER)
    reply = agent.submit(agent.write("v1", 0.8)).json()
    shown = case.admin.status(agent.run_id).submissions[0]
    assert reply["score"] == round(shown.feedback_pct, 2)
    assert (reply["score"] * 2).is_integer()  # 200 items


def test_a_copy_of_the_base_is_scored_from_the_cache_and_noted(case: Case, agent: AgentSide):
    generated = case.inference.generated
    reply = agent.submit(agent.write("v1", 0.3)).json()
    assert "copy of the base model" in reply["note"]
    assert reply["improvement"] == 0
    assert case.inference.generated == generated


def test_the_same_bytes_give_the_stored_result(case: Case, agent: AgentSide):
    first = agent.submit(agent.write("v1", 0.8)).json()
    generated = case.inference.generated
    second = agent.submit(agent.write("other", 0.8)).json()
    assert second["score"] == first["score"]
    assert "submission 1" in second["note"]
    assert case.inference.generated == generated


def test_the_same_bytes_while_they_are_queued_are_a_409_with_their_id(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    number = agent.submit_later(agent.write("v1", 0.8))
    assert hold.reached.wait(10)
    reply = agent.submit(agent.write("copy", 0.8))
    assert error_of(reply) == (409, "duplicate")
    assert reply.json()["submission_id"] == number
    hold.opened.set()
    agent.wait_for(number)


def test_without_waiting_the_reply_is_a_202_with_where_to_look(case: Case, agent: AgentSide):
    reply = agent.client.post("submit?wait=false", json={"model_path": agent.write("v1", 0.8)})
    assert reply.status_code == 202
    assert reply.json()["status_url"] == f"http://grader:5000/r/{agent.token}/submissions/1"
    assert agent.wait_for(1)["reply"]["score"] is not None


def test_where_to_look_is_where_the_grader_listens_whatever_port_was_asked_for(case: Case):
    agent = case.add_run(port=8123)
    reply = agent.client.post("submit?wait=false", json={"model_path": agent.write("v1", 0.8)})
    assert reply.json()["status_url"] == f"http://grader:5000/r/{agent.token}/submissions/1"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model_path": 3}', b'{"model_path": ""}', b"[" * 60_000, b'{"model_path": "\\ud800"}']
)
def test_what_is_no_request_is_a_400(agent: AgentSide, body: bytes):
    assert error_of(agent.client.post("submit", content=body)) == (400, "bad_request")


def test_a_body_over_the_cap_is_a_413(agent: AgentSide):
    assert error_of(agent.client.post("submit", content=b" " * 70_000)) == (413, "too_large")


@pytest.mark.parametrize("path", ["../x", "/etc", "output/../../x"])
def test_a_path_outside_the_workspace_is_a_400(agent: AgentSide, path: str):
    assert error_of(agent.submit(path)) == (400, "path_outside_workspace")


def test_an_inadmissible_checkpoint_is_a_422_with_file_and_reason(agent: AgentSide):
    path = agent.write("v1", 0.8)
    (agent.workspace / path / "model.bin").write_bytes(b"x")
    reply = agent.submit(path)
    assert error_of(reply) == (422, "forbidden_file")
    assert "model.bin" in reply.json()["error"]
    entry = agent.submission(1)
    assert (entry["state"], entry["error_class"]) == ("rejected", "forbidden_file")
    assert "model.bin" in entry["error"]


def test_rejected_attempts_use_no_quota(case: Case):
    agent = case.add_run(limits=Limits(timeout_s=600, max_submissions=1, max_submissions_per_hour=1))
    assert agent.submit("output/nothing").status_code == 400
    assert agent.submit(agent.write("v1", 0.8)).status_code == 200


def test_over_the_quota_is_a_429(case: Case):
    agent = case.add_run(limits=Limits(timeout_s=600, max_submissions=9, max_submissions_per_hour=1))
    assert agent.submit(agent.write("v1", 0.8)).status_code == 200
    reply = agent.submit(agent.write("v2", 0.7))
    assert error_of(reply) == (429, "over_quota")
    assert 3500 < int(reply.headers["Retry-After"]) <= 3600


def test_before_the_clock_starts_is_a_503(case: Case):
    agent = case.add_run(is_started=False)
    assert error_of(agent.submit(agent.write("v1", 0.8))) == (503, "run_not_started")


def test_after_the_deadline_is_a_410(case: Case, agent: AgentSide):
    case.start_clock(agent.run_id, seconds_left=0)
    assert error_of(agent.submit(agent.write("v1", 0.8))) == (410, "run_ended")


def test_a_copy_that_is_complete_only_after_the_deadline_is_a_410(case: Case, agent: AgentSide, monkeypatch):
    path = agent.write("v1", 0.8)
    borrow = case.grader.active(agent.run_id).output.borrow
    calls = []

    def late_borrow():
        calls.append(1)
        if len(calls) == 2:
            case.start_clock(agent.run_id, seconds_left=0)
        return borrow()

    monkeypatch.setattr(case.grader.active(agent.run_id).output, "borrow", late_borrow)
    assert error_of(agent.submit(path)) == (410, "run_ended")
    assert agent.submission(1)["state"] == "rejected"


def test_after_the_finish_none_is_taken_but_the_queue_is_scored(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    number = agent.submit_later(agent.write("v1", 0.8))
    case.admin.post(f"/runs/{agent.run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
    assert error_of(agent.submit(agent.write("v2", 0.7))) == (410, "run_ended")
    hold.opened.set()
    agent.wait_for(number)


def test_without_the_workspace_at_hand_it_is_a_503_and_not_counted(case: Case, agent: AgentSide):
    case.grader.active(agent.run_id).output.replace(None)
    reply = agent.submit(agent.write("v1", 0.8))
    assert error_of(reply) == (503, "grader_trouble")
    assert agent.client.get("submissions").json()["total"] == 0


def test_a_checkpoint_that_does_not_load_has_no_score_and_is_not_retried(case: Case, agent: AgentSide):
    def refuse(path: str) -> None:
        raise LoadFailed("secret words of the engine")

    case.inference.on_load = refuse
    reply = agent.submit(agent.write("v1", 0.8))
    body = reply.json()
    assert (reply.status_code, body["score"], body["best"], body["error_class"]) == (200, None, None, "load_failed")
    assert "secret" not in reply.text + agent.client.get("submissions").text
    assert "secret" in (case.admin.status(agent.run_id).submissions[0].detail or "")


def test_a_service_that_dies_once_costs_nothing(case: Case, agent: AgentSide):
    deaths = iter([ServiceUnavailable("gone")])

    def die_once() -> None:
        for death in deaths:
            raise death

    case.inference.before = die_once
    assert agent.submit(agent.write("v1", 0.8)).json()["score"] is not None


def test_a_service_that_dies_twice_fails_the_submission_without_a_score(case: Case, agent: AgentSide):
    def die() -> None:
        raise ServiceUnavailable("secret words")

    case.inference.before = die
    reply = agent.submit(agent.write("v1", 0.8))
    assert (reply.json()["score"], reply.json()["error_class"]) == (None, "evaluation_failed")
    assert "secret" not in reply.text
    case.inference.before = lambda: None
    assert case.admin.status(agent.run_id).submissions[0].error_class == "evaluation_failed"
    assert case.admin.post(f"/runs/{agent.run_id}/requeue")["count"] == 1
    assert agent.wait_for(1)["reply"]["score"] is not None


def breaks_under(case: Case, error: Exception):
    """For `FakeInference.before`: whatever an agent handed in breaks the engine, and the base model does not."""

    def die() -> None:
        if "snapshots" in case.inference.loads[-1]:
            raise error

    return die


BROKEN_BY_WEIGHTS = [
    (ServiceUnavailable("secret words"), "unscorable"),
    (EvaluationFailed("secret words"), "unscorable"),
    (TooSlow("secret words"), "too_slow"),
]


@pytest.mark.parametrize(("error", "error_class"), BROKEN_BY_WEIGHTS)
def test_what_breaks_under_a_checkpoint_but_not_under_the_base_model_is_the_agents_own_doing(
    case: Case, error: Exception, error_class: str
):
    """Else weights that never end, or that end the engine, would be a run that is left out of means."""
    agent = case.add_run(limits=Limits(timeout_s=600, max_submissions=1, max_submissions_per_hour=9))
    case.inference.before = breaks_under(case, error)
    reply = agent.submit(agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["score"], reply.json()["error_class"]) == (200, None, error_class)
    assert "secret" not in reply.text
    assert "not your doing" not in reply.text
    assert "secret" in (case.admin.status(agent.run_id).submissions[0].detail or "")
    assert error_of(agent.submit(agent.write("v2", 0.7))) == (429, "over_quota")
    assert case.admin.post(f"/runs/{agent.run_id}/requeue")["count"] == 0
    case.admin.post(f"/runs/{agent.run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
    assert case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json())["verdict"] == "agent_failed"


def test_answers_that_break_the_scorer_are_the_agents_own_doing(case: Case, agent: AgentSide):
    def die(reply):
        if "snapshots" in case.inference.loads[-1]:
            raise ServiceUnavailable("the scorer is gone")
        return reply

    case.scorer.alter = die
    assert agent.submit(agent.write("v1", 0.8)).json()["error_class"] == "unscorable"


@pytest.mark.parametrize("error", [TooSlow("late"), ServiceUnavailable("gone"), EvaluationFailed("no memory")])
def test_what_breaks_under_the_base_model_too_is_the_graders_trouble(case: Case, agent: AgentSide, error: Exception):
    def fail() -> None:
        raise error

    case.inference.before = fail
    assert agent.submit(agent.write("v1", 0.8)).json()["error_class"] == "evaluation_failed"


def test_what_breaks_in_the_grader_itself_is_never_the_agents_doing(case: Case, agent: AgentSide, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(worker, "save_evaluation", fail)
    assert agent.submit(agent.write("v1", 0.8)).json()["error_class"] == "evaluation_failed"


def test_the_control_asks_for_one_batch_of_the_base_model(case: Case, agent: AgentSide):
    case.inference.before = breaks_under(case, TooSlow("late"))
    agent.submit(agent.write("v1", 0.8))
    *attempts, control = case.inference.requests[-3:]
    assert [len(request.prompts) for request in attempts] == [N_ITEMS, N_ITEMS]
    assert len(control.prompts) == ENGINE.batch_size
    assert control.limit_s < attempts[0].limit_s
    assert case.inference.loads[-1].endswith("models/base")


def test_services_that_are_not_there_are_asked_for_and_waited_for(case: Case, agent: AgentSide):
    case.inference.is_up = False
    number = agent.submit_later(agent.write("v1", 0.8))
    wait_until(lambda: case.admin.status(agent.run_id).needs_services, 10)
    case.inference.is_up = True
    agent.wait_for(number)
    assert not case.admin.status(agent.run_id).needs_services


def test_an_engine_that_was_not_planned_scores_nothing(case: Case, agent: AgentSide):
    case.inference.spec = case.inference.spec.model_copy(update={"batch_size": 7})
    assert agent.submit(agent.write("v1", 0.8)).json()["error_class"] == "evaluation_failed"


@pytest.mark.parametrize("score", [float("nan"), 1.5, -0.1])
def test_a_scorer_that_gives_no_score_in_range_is_not_believed(case: Case, agent: AgentSide, score: float):
    def forge(reply):
        first = reply.verdicts[0].model_copy(update={"score": score})
        return reply.model_copy(update={"verdicts": (first, *reply.verdicts[1:])})

    case.scorer.alter = forge
    assert agent.submit(agent.write("v1", 0.8)).json()["score"] is None


def test_16_at_once_get_ids_of_their_own_and_scores(case: Case):
    agents = [case.add_run() for _ in range(4)]
    paths = {agent.run_id: [agent.write(f"v{n}", 0.5 + n / 10) for n in range(4)] for agent in agents}
    replies: list[tuple[str, dict]] = []

    def hand_in(agent: AgentSide, path: str) -> None:
        reply = agent.submit(path)
        replies.append((agent.run_id, reply.json()))

    threads = [threading.Thread(target=hand_in, args=(a, path)) for a in agents for path in paths[a.run_id]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(replies) == 16
    assert all(reply["score"] is not None for _, reply in replies)
    assert len({(run_id, reply["submission_id"]) for run_id, reply in replies}) == 16
