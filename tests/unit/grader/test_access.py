"""Who is answered at all, how many at a time, and what always answers."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest
from fakes import Hold
from grader_case import AgentSide, Case
from served import wait_until

from harness.grader import agent_app

ROUTES = ["time", "health", "submissions", "submissions/1"]


def other_address(case: Case, agent: AgentSide, address: str, token: str | None = None) -> httpx.Client:
    return case.agent(agent.run_id, token or agent.token, agent.workspace, address).client


@pytest.mark.parametrize("route", ROUTES)
def test_wrong_token_wrong_network_and_unknown_address_answer_alike(case: Case, agent: AgentSide, route: str):
    replies = [
        other_address(case, agent, "127.9.9.3").get(route),
        other_address(case, agent, agent.address, "wrong").get(route),
        agent.client.get("nothing/here"),
        agent.client.get(f"http://127.0.0.1:{case.port}/runs"),
    ]
    assert {reply.status_code for reply in replies} == {404}
    assert len({reply.content for reply in replies}) == 1
    assert replies[0].json()["error_class"] == "not_found"


def test_another_runs_token_does_not_work_from_here(case: Case, agent: AgentSide):
    other = case.add_run()
    assert other_address(case, agent, agent.address, other.token).get("time").status_code == 404
    assert other_address(case, agent, agent.address, other.token).post("submit", json={}).status_code == 404


def test_a_forwarded_address_is_not_believed(case: Case, agent: AgentSide):
    client = other_address(case, agent, "127.9.9.3")
    assert client.get("time", headers={"X-Forwarded-For": agent.address}).status_code == 404


def test_no_admin_route_is_on_the_agent_side(case: Case, agent: AgentSide):
    for path in (
        "/stats",
        "/runs",
        "/import",
        f"/runs/{agent.run_id}/finish",
        "/set_baseline",
        "/docs",
        "/openapi.json",
    ):
        assert agent.client.get(f"http://127.0.0.1:{case.port}{path}").status_code == 404
        assert agent.client.get(path.lstrip("/")).status_code == 404


def test_another_method_is_a_400_of_the_same_shape(agent: AgentSide):
    reply = agent.client.get("submit")
    assert (reply.status_code, reply.json()["error_class"]) == (400, "bad_request")


@pytest.mark.parametrize("number", ["0", "-1", "x", str(2**63)])
def test_a_submission_number_that_cannot_be_is_a_400(agent: AgentSide, number: str):
    assert agent.client.get(f"submissions/{number}").status_code == 400


def test_an_unknown_submission_is_a_404(agent: AgentSide):
    assert agent.client.get("submissions/9").status_code == 404


def test_no_server_header(agent: AgentSide):
    assert "server" not in agent.client.get("time").headers


def test_a_head_without_end_is_cut_off(case: Case):
    with socket.create_connection(("127.0.0.1", case.port), timeout=10) as connection:
        connection.sendall(b"GET /time HTTP/1.1\r\nX: " + b"y" * 40_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_time_is_the_graders_own(case: Case, agent: AgentSide):
    before = agent.client.get("time").json()
    assert before["last_submit_time"] is None
    assert before["end_time"] - before["start_time"] == pytest.approx(600)
    assert 590 < before["remaining"] <= 600
    agent.submit(agent.write("v1", 0.8))
    assert agent.client.get("time").json()["last_submit_time"] == pytest.approx(time.time(), abs=30)


def test_health_counts_the_queue(case: Case, agent: AgentSide):
    assert agent.client.get("health").json() == {
        "status": "ok", "task": "sums", "available_gpus": [], "queue_length": 0,
    }  # fmt: skip
    case.inference.before = hold = Hold()
    numbers = [agent.submit_later(agent.write(f"v{n}", 0.5 + n / 10)) for n in range(3)]
    assert agent.client.get("health").json()["queue_length"] == 3
    assert [agent.submission(number)["position"] for number in numbers] == [0, 1, 2]
    hold.opened.set()
    agent.wait_for(numbers[-1])
    wait_until(lambda: agent.client.get("health").json()["queue_length"] == 0)


def test_nine_open_requests_are_one_too_many_and_the_rest_still_answers(case: Case, agent: AgentSide):
    other = case.add_run()
    case.inference.before = hold = Hold()
    paths = [agent.write(f"v{n}", 0.5 + n / 20) for n in range(9)]
    replies: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda p=p: replies.append(agent.submit(p))) for p in paths[:8]]
    for thread in threads:
        thread.start()
    wait_until(lambda: agent.client.get("health").json()["queue_length"] == 8, 20)
    refused = agent.submit(paths[8])
    assert (refused.status_code, refused.json()["error_class"]) == (429, "too_many_requests")
    assert int(refused.headers["Retry-After"]) >= 1
    for route in ("time", "health", "submissions"):
        assert agent.client.get(route).status_code == other.client.get(route).status_code == 200
    hold.opened.set()
    for thread in threads:
        thread.join(30)
    assert [reply.status_code for reply in replies] == [200] * 8


def test_a_client_that_hangs_up_loses_nothing_and_gives_its_place_back(case: Case, agent: AgentSide):
    case.inference.before = hold = Hold()
    for n in range(9):
        path = agent.write(f"v{n}", 0.5 + n / 25)
        with pytest.raises(httpx.ReadTimeout):
            agent.client.post("submit", json={"model_path": path}, timeout=0.15)
        wait_until(lambda: case.grader.active(agent.run_id).submits._inside == 0, 5)
    hold.opened.set()
    assert agent.wait_for(9)["reply"]["score"] is not None


def is_cut_off(connection: socket.socket) -> bool:
    connection.settimeout(0.5)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_one_address_cannot_hold_all_connections(case: Case, agent: AgentSide):
    held = []
    for _ in range(80):
        connection = socket.socket()
        connection.bind((agent.address, 0))
        connection.connect(("127.0.0.1", case.port))
        held.append(connection)
    other = case.add_run()
    assert other.client.get("time").status_code == 200
    assert is_cut_off(held[-1])
    assert not is_cut_off(held[0])
    for connection in held:
        connection.close()


def test_reading_of_one_run_leaves_threads_for_the_others(case: Case, agent: AgentSide, monkeypatch):
    hold, told = Hold(), agent_app.all_of
    monkeypatch.setattr(agent_app, "all_of", lambda db, run: (hold(), told(db, run))[1])
    readers = [threading.Thread(target=agent.client.get, args=("submissions",)) for _ in range(8)]
    for reader in readers:
        reader.start()
    wait_until(lambda: case.grader.active(agent.run_id).reads._inside == 8, 10)
    other = case.add_run()
    reply = other.client.post("submit?wait=false", json={"model_path": other.write("v1", 0.8)}, timeout=10)
    hold.opened.set()
    assert reply.status_code == 202
    for reader in readers:
        reader.join()


def test_a_mistake_of_the_graders_own_tells_nothing(case: Case, agent: AgentSide, monkeypatch):
    def broken(*_args):
        raise RuntimeError("secret")

    monkeypatch.setattr(case.grader.intake, "reserve", broken)
    reply = agent.submit("output/v1")
    assert (reply.status_code, reply.json()["error_class"]) == (500, "grader_trouble")
    assert "secret" not in reply.text
