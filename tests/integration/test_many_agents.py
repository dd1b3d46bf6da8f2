"""Many agents at one grader process: ids are unique, nothing is lost, SQLite never says `locked`, clocks answer."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeInference, FakeScorer
from fastapi import FastAPI
from grader_case import BASE_SKILL, ENGINE, OWNER, Case
from grader_process import GraderProcess
from safetensors_file import model_tensors, write_model
from served import served, wait_until

from harness.domain.admin import RegisterRun, StartClock
from harness.domain.base import now_utc
from harness.domain.prompts import Prompt
from harness.domain.runs import SubmissionState
from harness.inference.server import create_app
from harness.inference.wire import Completion, EngineInfo, GenerateRequest, LoadRequest, Sampling
from harness.scorer.wire import ScoreReply, ScoreRequest
from harness.store.database import open_readonly
from harness.store.query import run_query
from harness.store.records_queue import submissions_of

AGENTS, AT_ONCE = 16, 4
WAITING_RUNS, OPEN_PER_RUN = 10, 6


class SkillEngine:
    """The fake's answers behind the real inference service."""

    def __init__(self, _spec: object) -> None:
        self._fake = FakeInference(ENGINE)

    def info(self) -> EngineInfo:
        return self._fake.info()

    def load(self, folder: Path) -> bool:
        return self._fake.load(LoadRequest(path=str(folder))).is_reused

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        return list(self._fake.generate(GenerateRequest(prompts=tuple(prompts), sampling=sampling)).completions)


def scorer_app() -> FastAPI:
    """A scorer of exact matches; it holds nothing, so that many runs can share it."""
    app, scorer = FastAPI(), FakeScorer()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/score", response_model=ScoreReply)
    def score(request: ScoreRequest) -> ScoreReply:
        return scorer.score(request)

    return app


@dataclass(frozen=True)
class Agent:
    """One run as its agent sees it; every request is a connection of its own."""

    number: int
    workspace: Path
    port: int

    @property
    def run_id(self) -> str:
        return f"20260101T000000_noop_{self.number:04x}"

    @property
    def token(self) -> str:
        return f"{self.number:043}"

    @property
    def address(self) -> str:
        return f"127.7.{self.number}.3"

    def open(self, method: str, route: str, body: dict[str, Any] | None = None) -> http.client.HTTPConnection:
        """A request that was sent; its reply is not read."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240, source_address=(self.address, 0))
        content = None if body is None else json.dumps(body).encode()
        link.request(method, f"/r/{self.token}/{route}", content, {"Connection": "close"})
        return link

    def get(self, route: str) -> dict[str, Any]:
        status, body = reply_of(self.open("GET", route))
        assert status == 200, body
        return body

    def open_submit(self, number: int) -> http.client.HTTPConnection:
        """Hands in a checkpoint that no other agent has; the request is answered when it is scored."""
        skill = BASE_SKILL + 0.1 + (self.number * 8 + number) / 500
        write_model(self.workspace / "output" / f"v{number}", model_tensors(skill))
        return self.open("POST", "submit", {"model_path": f"output/v{number}"})


def reply_of(link: http.client.HTTPConnection) -> tuple[int, dict[str, Any]]:
    with link.getresponse() as response:
        reply = response.status, json.loads(response.read())
    link.close()
    return reply


class Crowd:
    """A grader process and the services of its runs."""

    def __init__(self, case: Case, process: GraderProcess, stack: ExitStack) -> None:
        self.case, self.process, self._stack = case, process, stack
        self._scorer = case.root / "scorer.sock"
        stack.enter_context(served(scorer_app(), self._scorer))
        self.agents: list[Agent] = []

    def add(self) -> Agent:
        """A run whose clock runs, without services or baseline."""
        number = len(self.agents) + 1
        agent = Agent(number, self.case.root / f"w{number}", self.process.port)
        agent.workspace.mkdir()
        admin, digest = self.process.admin, hashlib.sha256(agent.token.encode()).hexdigest()
        plan, subnet = self.case.plan(agent.run_id), f"127.7.{number}.0/28"
        admin.register(RegisterRun(plan=plan, owner=OWNER, token_sha256=digest, subnet=subnet))
        now = now_utc()
        admin.start_clock(agent.run_id, StartClock(started_at=now, deadline=now + timedelta(seconds=600)))
        admin.hand_over(agent.run_id, agent.workspace)
        self.agents.append(agent)
        return agent

    def serve(self, agent: Agent) -> None:
        """Starts the run's services."""
        home = self.case.home
        inference, scorer = home.inference_dir(agent.run_id), home.scorer_dir(agent.run_id)
        for folder in (inference, scorer):
            folder.mkdir(parents=True)
        self._stack.enter_context(served(create_app(ENGINE, SkillEngine), inference / "s.sock"))
        (scorer / "s.sock").symlink_to(self._scorer)

    def await_baseline(self, agent: Agent) -> None:
        self.process.admin.ask_baseline(agent.run_id)
        wait_until(lambda: self.process.admin.status(agent.run_id).baseline is not None, 60)

    def log(self) -> str:
        return self.process.log.read_text()


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    case = Case(tmp_path)
    case.stop()
    process = GraderProcess(case.home)
    process.start()
    with ExitStack() as stack:
        stack.callback(process.kill)
        yield Crowd(case, process, stack)


def test_sixteen_agents_submit_at_once_and_each_submission_is_scored_once(crowd: Crowd):
    agents = [crowd.add() for _ in range(AGENTS)]
    for agent in agents:
        crowd.serve(agent)
    crowd.await_baseline(agents[0])
    barrier = threading.Barrier(AGENTS * AT_ONCE)

    def hand_in(agent: Agent, number: int) -> tuple[int, dict[str, Any]]:
        barrier.wait(60)
        return reply_of(agent.open_submit(number))

    over = threading.Event()
    reader = threading.Thread(target=read_all_the_time, args=(crowd, over))
    reader.start()
    with ThreadPoolExecutor(AGENTS * AT_ONCE) as pool:
        waiting = {agent.run_id: [pool.submit(hand_in, agent, n) for n in range(AT_ONCE)] for agent in agents}
        replies = {run_id: [future.result() for future in futures] for run_id, futures in waiting.items()}
    over.set()
    reader.join(30)

    for given in replies.values():
        assert [status for status, _ in given] == [200] * AT_ONCE, given
        assert sorted(body["submission_id"] for _, body in given) == list(range(1, AT_ONCE + 1))
        assert all(body["score"] is not None for _, body in given)
    db = open_readonly(crowd.case.home.db, is_grader_running=True)
    try:
        records = [record for agent in agents for record in submissions_of(db, agent.run_id)]
        evaluations = run_query(db, "select count(*) from evaluation").rows[0][0]
    finally:
        db.close()
    assert len({record.id for record in records}) == len(records) == AGENTS * AT_ONCE
    assert {record.state for record in records} == {SubmissionState.SCORED}
    assert evaluations == 1 + len(records), "the baseline, and each submission once"
    assert "locked" not in crowd.log()
    assert '"level": "ERROR"' not in crowd.log()


def read_all_the_time(crowd: Crowd, over: threading.Event) -> None:
    """What `harness show` and people's `sqlite3` do while runs go on."""
    while not over.is_set():
        db = open_readonly(crowd.case.home.db, is_grader_running=True)
        try:
            run_query(db, "select * from v_submissions")
        finally:
            db.close()


def test_clocks_and_health_answer_while_sixty_submissions_wait_and_none_of_them_is_lost(crowd: Crowd):
    agents = [crowd.add() for _ in range(WAITING_RUNS)]
    links = {a.run_id: [a.open_submit(n) for n in range(OPEN_PER_RUN)] for a in agents}
    for agent in agents:
        wait_until(lambda agent=agent: agent.get("health")["queue_length"] == OPEN_PER_RUN, 60)
        assert agent.get("time")["remaining"] > 0
    wait_until(lambda: all(status.needs_services for status in crowd.process.admin.active_runs()))
    for agent in agents:
        crowd.serve(agent)
    for agent in agents:
        replies = [reply_of(link) for link in links[agent.run_id]]
        assert [status for status, _ in replies] == [200] * OPEN_PER_RUN, replies
        assert {body["submission_id"] for _, body in replies} == set(range(1, OPEN_PER_RUN + 1))
        wait_until(lambda agent=agent: agent.get("health")["queue_length"] == 0)
    assert "locked" not in crowd.log()
