"""The grader as a process: real sockets and database, a real scorer; killed and stopped at will."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from grader_case import OWNER, Case
from grader_process import GraderProcess
from served import service_process, wait_until

from harness.domain.admin import FinishRun, RegisterRun, StartClock
from harness.domain.base import now_utc
from harness.domain.runs import EndedBy
from harness.errors import PrerequisiteError
from harness.home import Home
from harness.scorer.client import ScorerClient

RUN_ID, TOKEN = "20260101T000000_noop_0001", "t" * 43


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """Only its home, models and items: the grader here is a process."""
    case = Case(tmp_path)
    case.stop()
    return case


@pytest.fixture
def process(case: Case) -> Iterator[GraderProcess]:
    process = GraderProcess(case.home)
    process.start()
    yield process
    process.kill()


class Agent:
    """A registered run and its agent's side."""

    def __init__(self, case: Case, process: GraderProcess) -> None:
        self.case, self.process = case, process
        self.workspace = case.root / "workspace"
        self.workspace.mkdir()
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        process.admin.register(
            RegisterRun(plan=case.plan(RUN_ID), owner=OWNER, token_sha256=digest, subnet="127.0.0.0/28")
        )
        now = now_utc()
        process.admin.start_clock(RUN_ID, StartClock(started_at=now, deadline=now + timedelta(seconds=600)))
        process.admin.hand_over(RUN_ID, self.workspace)

    def write(self, name: str, skill: float) -> str:
        from safetensors_file import model_tensors, write_model

        write_model(self.workspace / "output" / name, model_tensors(skill))
        return f"output/{name}"

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.process.port}/r/{TOKEN}/{path}", timeout=10, trust_env=False)

    def submit(self, path: str) -> httpx.Response:
        url = f"http://127.0.0.1:{self.process.port}/r/{TOKEN}/submit?wait=false"
        return httpx.post(url, json={"model_path": path}, timeout=10, trust_env=False)


@pytest.fixture
def agent(case: Case, process: GraderProcess) -> Agent:
    return Agent(case, process)


def test_it_is_up_quickly_and_stops_in_order(case: Case):
    process = GraderProcess(case.home)
    assert process.start() < 6  # 1.5 s on an idle machine
    assert process.stop() == 0
    assert not case.home.admin_socket.exists()
    assert not case.home.descriptor_socket.exists()


def test_its_log_is_json_and_holds_no_token(agent: Agent, process: GraderProcess):
    agent.get("time")
    agent.submit("output/none")
    lines = process.log.read_text().splitlines()
    assert all({"time", "level", "message"} <= json.loads(line).keys() for line in lines)
    assert TOKEN not in process.log.read_text()


def test_a_second_grader_on_the_same_home_or_port_does_not_start(case: Case, process: GraderProcess, tmp_path: Path):
    second = GraderProcess(case.home)
    second.log = case.home.path / "second.log"
    assert second.start_in_vain() == PrerequisiteError.exit_code
    assert "another grader" in second.log.read_text()
    other = GraderProcess(Home(tmp_path / "other"))
    other.home.create()
    other.port = process.port
    assert other.start_in_vain() == PrerequisiteError.exit_code
    assert process.admin.stats().image == "harness-grader:test"


def test_a_kill_loses_no_submission_and_no_clock(agent: Agent, process: GraderProcess):
    assert agent.submit(agent.write("v1", 0.5)).status_code == 202
    assert agent.submit(agent.write("v2", 0.6)).status_code == 202
    before = agent.get("time").json()["end_time"]
    boot = process.admin.status(RUN_ID).grader_boot_id
    process.kill()
    process.start()
    status = process.admin.status(RUN_ID)
    assert status.grader_boot_id != boot
    assert status.needs_output
    assert [s["state"] for s in agent.get("submissions").json()["submissions"]] == ["queued", "queued"]
    assert agent.get("time").json()["end_time"] == before
    assert agent.submit(agent.write("v3", 0.7)).status_code == 503
    process.admin.hand_over(RUN_ID, agent.workspace)
    assert agent.submit("output/v3").status_code == 202


def test_services_are_asked_for_and_a_scorer_alone_is_not_enough(agent: Agent, process: GraderProcess, case: Case):
    (case.root / "benchmark").mkdir()
    (case.root / "benchmark" / "eval.py").write_text("def evaluate(q, a, r, **_): return float(a == r)")
    folder = case.home.scorer_dir(RUN_ID)
    folder.mkdir(parents=True)
    agent.submit(agent.write("v1", 0.5))
    with service_process("harness.scorer", folder / "s.sock", "--benchmark", str(case.root / "benchmark")):
        wait_until(ScorerClient(folder / "s.sock").is_ready)
        wait_until(lambda: process.admin.status(RUN_ID).needs_services)
        assert agent.get("submissions/1").json()["state"] == "queued"


def test_after_the_finish_an_agent_gets_a_410(agent: Agent, process: GraderProcess):
    process.admin.finish(RUN_ID, FinishRun(ended_by=EndedBy.FINISHED))
    reply = agent.submit(agent.write("v1", 0.5))
    assert (reply.status_code, reply.json()["error_class"]) == (410, "run_ended")
