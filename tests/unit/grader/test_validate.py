"""`POST /validate`: what a submission would meet, short of its score."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fakes import Hold
from grader_case import AgentSide, Case
from served import wait_until

from harness.domain.admin import CloseRun, FinishRun
from harness.domain.runs import EndedBy
from harness.errors import EvaluationFailed, LoadFailed, RunEnded, ServiceUnavailable
from harness.grader import worker
from harness.grader.validation import CHECKS


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


def leftovers(case: Case) -> list[Path]:
    return list((case.home.snapshots / CHECKS).iterdir())


def fails_under_checks(case: Case, times: int):
    """Ends the engine so many times when it generates with what is being validated."""
    left = [times]

    def before() -> None:
        if CHECKS in case.inference.loads[-1] and left[0]:
            left[0] -= 1
            raise ServiceUnavailable("it was killed")

    return before


def test_a_checkpoint_that_breaks_the_engine_is_told_so(case: Case, agent: AgentSide):
    case.inference.before = fails_under_checks(case, 99)
    reply = validate(agent, agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["error_class"]) == (422, "unscorable")
    assert case.inference.loads[-1].endswith("models/base")


def test_an_engine_that_was_killed_once_is_asked_once_more(case: Case, agent: AgentSide):
    case.inference.before = fails_under_checks(case, 1)
    assert validate(agent, agent.write("v1", 0.8)).status_code == 200


def test_an_engine_that_breaks_under_the_base_model_too_is_the_graders_trouble(case: Case, agent: AgentSide):
    def fail() -> None:
        raise ServiceUnavailable("secret words")

    case.inference.before = fail
    reply = validate(agent, agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["error_class"]) == (503, "grader_trouble")
    assert not leftovers(case)


def test_a_mistake_of_the_graders_own_leaves_nobody_waiting(case: Case, agent: AgentSide, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("secret words")

    path = agent.write("v1", 0.8)
    with monkeypatch.context() as patch:
        patch.setattr(worker, "build_prompt", fail)
        reply = validate(agent, path)
        assert (reply.status_code, reply.json()["error_class"]) == (503, "grader_trouble")
    assert validate(agent, path).status_code == 200


def test_a_full_disk_is_a_503_and_leaves_nothing(case: Case, agent: AgentSide, monkeypatch):
    monkeypatch.setattr("harness.grader.snapshots.RESERVED_BYTES", 2**62)
    reply = validate(agent, agent.write("v1", 0.8))
    assert (reply.status_code, reply.json()["error_class"]) == (503, "grader_trouble")
    assert not leftovers(case)


def test_one_that_waits_for_its_turn_when_the_run_ends_is_a_410(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    number = agent.submit_later(agent.write("v1", 0.8))
    assert hold.reached.wait(10)
    path = agent.write("v2", 0.7)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(validate, agent, path)
        wait_until(lambda: bool(case.grader.workers._checks[agent.run_id]))
        case.admin.post(f"/runs/{agent.run_id}/finish", FinishRun(ended_by=EndedBy.FINISHED).model_dump_json())
        hold.opened.set()
        assert asked.result(20).status_code == 410
    agent.wait_for(number)
    # Nothing of it was loaded: the run's last submissions did not wait for that.
    assert not any(CHECKS in path for path in case.inference.loads)


def test_one_whose_run_is_closed_while_the_services_are_away_is_a_410(case: Case, agent: AgentSide):
    case.inference.is_up = False
    path = agent.write("v1", 0.8)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(validate, agent, path)
        wait_until(lambda: case.admin.status(agent.run_id).needs_services, 10)
        case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json())
        assert asked.result(20).status_code == 410
    wait_until(lambda: not leftovers(case))


def test_a_check_of_a_closed_run_is_answered_at_once(case: Case, agent: AgentSide):
    run = case.grader.active(agent.run_id)
    case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json())
    wait_until(lambda: agent.run_id not in case.grader.workers._places)
    with pytest.raises(RunEnded):
        case.grader.workers.check_load(run, Path("models/base")).result(10)


def test_a_flood_of_them_keeps_no_submission_waiting(case: Case, agent: AgentSide):
    path, is_scored, answers = agent.write("v1", 0.8), threading.Event(), []

    def flood() -> None:
        while not is_scored.is_set():
            answers.append(validate(agent, path).status_code)

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: 200 in answers and 429 in answers, 20)
        for number in range(3):
            assert agent.submit(agent.write(f"s{number}", 0.5 + number / 10)).json()["score"] is not None
    finally:
        is_scored.set()
        for thread in threads:
            thread.join(20)
    assert set(answers) == {200, 429}
    assert not leftovers(case)


def test_the_same_folder_may_be_submitted_meanwhile(case: Case, agent: AgentSide):
    path = agent.write("v1", 0.83)
    with ThreadPoolExecutor(2) as pool:
        checked, submitted = pool.submit(validate, agent, path), pool.submit(agent.submit, path)
        assert checked.result(20).status_code == 200
        assert submitted.result(20).json()["score"] is not None
    assert not leftovers(case)


def test_who_hangs_up_leaves_nothing_behind_and_may_ask_again(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    path = agent.write("v1", 0.8)
    body = json.dumps({"model_path": path}).encode()
    with socket.create_connection(("127.0.0.1", case.port), source_address=(agent.address, 0)) as caller:
        head = f"POST /r/{agent.token}/validate HTTP/1.1\r\nHost: grader\r\nContent-Length: {len(body)}\r\n\r\n"
        caller.sendall(head.encode() + body)
        assert hold.reached.wait(10)
        assert leftovers(case)
    hold.opened.set()
    wait_until(lambda: not leftovers(case), 10)
    wait_until(lambda: validate(agent, path).status_code == 200, 10)


def test_what_a_dead_grader_left_of_them_is_removed(own_case: Case):
    left = own_case.home.snapshots / CHECKS / "20260101T000000_noop_0001" / "x"
    left.mkdir(parents=True)
    own_case.stop()
    own_case.start()
    assert not left.exists()
