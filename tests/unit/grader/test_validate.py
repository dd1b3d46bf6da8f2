"""`POST /validate`: what a submission would meet, short of its score."""

from __future__ import annotations

import threading

import httpx
from fakes import Hold
from grader_case import AgentSide, Case
from served import wait_until

from harness.domain.admin import FinishRun
from harness.domain.runs import EndedBy
from harness.errors import EvaluationFailed, LoadFailed


def validate(agent: AgentSide, path: str) -> httpx.Response:
    return agent.client.post("validate", json={"model_path": path})


def test_it_loads_the_model_and_says_one_token_but_no_score(case: Case, agent: AgentSide):
    loads = len(case.inference.loads)
    reply = validate(agent, agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["valid"]) == (200, True)
    assert "score" not in reply.json()
    assert len(case.inference.loads) == loads + 1


def test_it_leaves_no_submission_no_quota_and_no_snapshot(case: Case, agent: AgentSide):
    before = sorted(case.home.snapshots.iterdir())
    validate(agent, agent.write("v1", 0.77))
    assert agent.client.get("submissions").json()["total"] == 0
    assert [path for path in sorted(case.home.snapshots.iterdir()) if path not in before] in (
        [],
        [case.home.snapshots / ".checks"],
    )
    assert not list((case.home.snapshots / ".checks").iterdir())


def test_it_says_what_is_wrong_as_submit_does(agent: AgentSide):
    path = agent.write("v1", 0.8)
    (agent.workspace / path / "evil.py").write_text("x")
    assert validate(agent, path).json()["error_class"] == "forbidden_file"
    assert validate(agent, "../x").json()["error_class"] == "path_outside_workspace"


def test_a_model_that_does_not_load_is_a_422(case: Case, agent: AgentSide):
    def refuse(path: str) -> None:
        raise LoadFailed("secret words")

    case.inference.on_load = refuse
    reply = validate(agent, agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["error_class"]) == (422, "load_failed")
    assert "secret" not in reply.text


def test_trouble_of_the_engine_is_a_503(case: Case, agent: AgentSide):
    def fail() -> None:
        raise EvaluationFailed("secret words")

    case.inference.before = fail
    reply = validate(agent, agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["error_class"]) == (503, "grader_trouble")
    assert "secret" not in reply.text


def test_one_at_a_time(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    path = agent.write("v1", 0.8)
    first = threading.Thread(target=validate, args=(agent, path))
    first.start()
    assert hold.reached.wait(10)
    assert validate(agent, path).status_code == 429
    hold.opened.set()
    first.join(10)
    wait_until(lambda: validate(agent, path).status_code == 200)


def test_after_the_end_of_the_run_it_is_a_410(case: Case, agent: AgentSide):
    case.admin.post(f"/runs/{agent.run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
    assert validate(agent, agent.write("v1", 0.8)).status_code == 410
