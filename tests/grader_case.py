"""A whole grader in this process: real HTTP on loopback, real database and snapshots, fakes of the two services."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from fakes import FakeInference, FakeScorer
from safetensors_file import model_tensors, write_model
from served import wait_until

from harness.checkpoint.tree import tree_hash
from harness.domain.admin import CloseRun, RegisterRun, RunStatus, StartClock
from harness.domain.base import now_utc
from harness.domain.items import items_hash, parse_item
from harness.domain.runs import Owner
from harness.domain.specs import (
    Agent,
    AgentConfig,
    Benchmark,
    BenchmarkConfig,
    DataRef,
    EngineSpec,
    Limits,
    ModelRef,
    Protocol,
    RunPlan,
)
from harness.grader.admin_app import create_admin_app
from harness.grader.agent_app import create_agent_app
from harness.grader.evaluate import Services
from harness.grader.registry import ActiveRun
from harness.grader.service import Grader
from harness.grader.serving import HttpServer
from harness.grader.statuses import status_of
from harness.grader.waiters import Waiters
from harness.grader.workshop import Workshop
from harness.home import Home
from harness.hostile_http import listen_tcp
from harness.store.database import open_writer

BASE_SKILL = 0.3
ENGINE = EngineSpec(image="harness-inference:test", device="cpu:test")
OWNER = Owner(pid=1, started_ticks=1, boot_id="boot", host="host")
N_ITEMS = 200
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
ROOMY = Limits(timeout_s=600, max_submissions=100_000, max_submissions_per_hour=100_000)


@dataclass
class AgentSide:
    """One run as its agent sees it."""

    run_id: str
    token: str
    workspace: Path
    address: str
    client: httpx.Client

    def write(self, name: str, skill: float) -> str:
        """A checkpoint of this skill in output/<name>; returns its path."""
        write_model(self.workspace / "output" / name, model_tensors(skill))
        return f"output/{name}"

    def submit(self, path: str, **fields: Any) -> httpx.Response:
        return self.client.post("submit", json={"model_path": path, **fields})

    def submit_later(self, path: str) -> int:
        """Hands in without waiting for the score; returns the number."""
        reply = self.client.post("submit?wait=false", json={"model_path": path})
        assert reply.status_code == 202, reply.text
        return int(reply.json()["submission_id"])

    def submission(self, number: int) -> dict[str, Any]:
        return self.client.get(f"submissions/{number}").json()

    def wait_for(self, number: int, state: str = "scored") -> dict[str, Any]:
        wait_until(lambda: self.submission(number)["state"] == state, 20)
        return self.submission(number)


class Case:
    """A home with a base model and hidden items, and the grader on it; `stop` and `start` make a restart."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home")
        self.home.create()
        self.root = root
        write_model(self.home.models / "base", model_tensors(BASE_SKILL))
        sums = [(n, n * 7 % 50) for n in range(N_ITEMS)]
        records = [{"id": f"i{a}", "question": f"{a}+{b}", "answer": str(a + b)} for a, b in sums]
        (self.home.eval / "sums").mkdir(exist_ok=True)
        (self.home.eval / "sums" / "test.jsonl").write_text("\n".join(json.dumps(record) for record in records))
        items = [parse_item(record) for record in records]
        self.eval_hash = items_hash(items)
        self.inference, self.scorer = FakeInference(ENGINE), FakeScorer()
        self.without_services: set[str] = set()
        self._scenario = 0
        self._network = 0
        self.start()

    def new_scenario(self) -> None:
        """Whole fakes, and a benchmark digest of its own, so that nothing is in the cache."""
        self._scenario += 1
        vars(self.inference).update(vars(FakeInference(ENGINE)))
        vars(self.scorer).update(vars(FakeScorer()))

    def close_runs(self) -> None:
        for run in self.grader.registry.all():
            self.admin.post(f"/runs/{run.run_id}/close", CloseRun().model_dump_json())
        for client in self._clients:
            client.close()
        self._clients.clear()

    def start(self) -> None:
        self.db = open_writer(self.home.db)
        shop = Workshop(self.home, self.db, Waiters(), self._connect, self.home.path, memory_wait_s=0.3)
        self.grader = Grader(shop, image="harness-grader:test")
        self.grader.take_up()
        listening = listen_tcp("127.0.0.1", 0, "grader")
        self.port = listening.getsockname()[1]
        self._server = HttpServer(create_agent_app(self.grader), listening, is_hostile=True)
        self._server.start()
        self._clients: list[httpx.Client] = []
        self.admin = AdminSide(self.grader)

    def stop(self) -> None:
        self.grader.stop()
        for client in self._clients:
            client.close()
        self._server.stop()
        self.admin.close()
        wait_until(lambda: not self.grader.workers._places, 10)
        for run in self.grader.registry.all():
            run.output.replace(None)
        self.db.close()

    def _connect(self, run: ActiveRun) -> Services:
        if run.run_id in self.without_services:
            return Services(FakeInference(ENGINE, is_up=False), FakeScorer(is_up=False))
        return Services(self.inference, self.scorer)

    def plan(self, run_id: str, **changes: Any) -> RunPlan:
        plan = RunPlan(
            run_id=run_id,
            created_at=CREATED,
            agent=Agent(id="noop", path=Path("agents/noop"), digest="a" * 64, config=AgentConfig(name="noop")),
            benchmark=Benchmark(
                id="sums",
                path=Path("benchmarks/sums"),
                digest=f"b{self._scenario}",
                config=BenchmarkConfig(name="sums"),
            ),
            model=ModelRef(
                repo_id="base",
                revision="local",
                path=Path("models/base"),
                tree_hash=tree_hash(self.home.models / "base"),
                size_bytes=1,
            ),
            data=DataRef(
                train_path=Path("train/sums"),
                eval_path=Path("eval/sums"),
                eval_hash=self.eval_hash,
                train_items=1,
                eval_items=N_ITEMS,
            ),
            protocol=Protocol.STANDARD,
            limits=ROOMY,
            images={"agent": "harness-agent:test"},
            engine=ENGINE,
        )
        return plan.model_copy(update=changes)

    def add_run(self, *, is_started: bool = True, **changes: Any) -> AgentSide:
        """A registered run with its baseline scored and, unless told otherwise, its clock started."""
        self._network += 1
        network = f"127.{self._network // 200}.{self._network % 200 + 1}"
        run_id = f"20260101T000000_noop_{self._network:04x}"
        token = secrets.token_urlsafe(32)
        workspace = self.root / "workspaces" / run_id
        (workspace / "output").mkdir(parents=True)
        self.register(self.plan(run_id, **changes), token, f"{network}.3")
        self.admin.post(f"/runs/{run_id}/baseline")
        wait_until(lambda: self.admin.status(run_id).baseline is not None, 20)
        self.hand_over(run_id, workspace)
        if is_started:
            self.start_clock(run_id)
        return self.agent(run_id, token, workspace, f"{network}.3")

    def register_only(self) -> str:
        """A run that is registered and nothing else."""
        self._network += 1
        run_id = f"20260101T000000_noop_{self._network:04x}"
        self.register(self.plan(run_id), secrets.token_urlsafe(32), "127.250.0.3")
        return run_id

    def register(self, plan: RunPlan, token: str, address: str) -> None:
        self.admin.post("/runs", self.registration(plan, token, address))

    def registration(self, plan: RunPlan, token: str, address: str) -> str:
        digest = hashlib.sha256(token.encode()).hexdigest()
        subnet = address.removesuffix(".3") + ".0/28"
        return RegisterRun(plan=plan, owner=OWNER, token_sha256=digest, subnet=subnet).model_dump_json()

    def agent(self, run_id: str, token: str, workspace: Path, address: str) -> AgentSide:
        url = f"http://127.0.0.1:{self.port}/r/{token}/"
        # Without `verify=False` each client loads the machine's certificates, for plain HTTP.
        transport = httpx.HTTPTransport(local_address=address, verify=False)
        client = httpx.Client(base_url=url, transport=transport, timeout=30)
        self._clients.append(client)
        return AgentSide(run_id, token, workspace, address, client)

    def again(self, agent: AgentSide) -> AgentSide:
        """The same agent after a restart of the grader (its port is another one here)."""
        return self.agent(agent.run_id, agent.token, agent.workspace, agent.address)

    def hand_over(self, run_id: str, workspace: Path) -> None:
        run = self.grader.active(run_id)
        run.output.replace(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY))
        self.grader.intake.take_up(run)

    def start_clock(self, run_id: str, seconds_left: float = 600) -> None:
        now = now_utc()
        clock = StartClock(started_at=now, deadline=now + timedelta(seconds=seconds_left))
        self.admin.post(f"/runs/{run_id}/clock", clock.model_dump_json())


class AdminSide:
    """The admin application over HTTP, in this thread."""

    def __init__(self, grader: Grader) -> None:
        from starlette.testclient import TestClient

        self._grader = grader
        self.client = TestClient(create_admin_app(grader), raise_server_exceptions=False)
        # One event loop for all requests; without this each makes its own.
        self.client.__enter__()

    def post(self, path: str, body: str = "") -> Any:
        reply = self.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code == 200, reply.text
        return reply.json()

    def status(self, run_id: str) -> RunStatus:
        return status_of(self._grader, run_id)

    def close(self) -> None:
        self.client.__exit__(None, None, None)
