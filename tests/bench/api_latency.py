"""How fast `/time` and `/health` answer while agents wait for scores and one submission is being scored.

`python tests/bench/api_latency.py [--requests 2000] [--json]`: a grader process, 8 runs with 8 open `/submit` requests
each that nobody scores, and one run whose submissions are admitted and scored one after the other by the real services
(containers of the inference and scorer images, model tiny-arith). Every request is a connection of its own, as curl
makes it. The same request to a server that does nothing, by turns with the others, shows what the machine itself adds.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import secrets
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grader_process import GraderProcess
from machine import machine, report, summary
from served import wait_until

from harness.domain.admin import RegisterRun, StartClock
from harness.domain.base import now_utc
from harness.domain.specs import RunPlan
from harness.home import Home
from harness.runner.host import Host
from harness.runner.launch import Launcher
from harness.runner.plan import complete
from harness.runner.request import RunRequest
from harness.sandbox.owner import current_owner
from harness.sandbox.services import inference_memory_mb, inference_service, scorer_service, start_services
from harness.sandbox.services import stop_services as remove_services
from harness.settings import load_settings

WAITING_RUNS, OPEN_PER_RUN = 8, 8
CHECKPOINTS = 40
PACE_S = 0.005
TARGET_MS = 50.0
ROUTES = ("time", "health")
# Answers any request with two bytes: what a round trip costs when nobody does anything.
IDLE_SERVER = """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=64)
print(server.getsockname()[1], flush=True)
while True:
    with server.accept()[0] as link:
        link.recv(4096)
        link.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{}")
"""


@dataclass(frozen=True)
class Agent:
    """One run as its agent sees it: its capability, and the only address that may use it."""

    run_id: str
    token: str
    address: str
    workspace: Path
    port: int

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout_s, source_address=(self.address, 0))

    def get(self, route: str) -> bytes:
        return fetched(self.connection(30), f"/r/{self.token}/{route}")

    def submit(self, number: int) -> dict[str, object]:
        link = self.connection(3600)
        link.request("POST", f"/r/{self.token}/submit", *self.submission(number))
        reply = link.getresponse()
        body = json.loads(reply.read())
        link.close()
        if reply.status != 200:
            sys.exit(f"a submission was refused with {reply.status}: {body}")
        return body

    def submission(self, number: int) -> tuple[bytes, dict[str, str]]:
        return json.dumps({"model_path": f"output/v{number}"}).encode(), {"Content-Type": "application/json"}

    def begin_submit(self, number: int) -> http.client.HTTPConnection:
        """A request whose answer nobody reads."""
        link = self.connection(3600)
        link.request("POST", f"/r/{self.token}/submit", *self.submission(number))
        return link


def fetched(link: http.client.HTTPConnection, path: str) -> bytes:
    link.request("GET", path, headers={"Connection": "close"})
    reply = link.getresponse()
    body = reply.read()
    link.close()
    if reply.status != 200:
        sys.exit(f"GET {path} was answered with {reply.status}: {body!r}")
    return body


@dataclass
class Feeder:
    """Hands in one new checkpoint after the other, each as soon as the one before is scored."""

    agent: Agent
    scored: list[float] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._feed, daemon=True).start()

    def _feed(self) -> None:
        for number in range(CHECKPOINTS):
            if self.is_over.is_set():
                return
            started = time.perf_counter()
            self.agent.submit(number)
            self.scored.append(time.perf_counter() - started)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-bench-")))
        os.environ["HARNESS_HOME"] = str(folder / "home")
        host = stack.enter_context(Host.open(load_settings(), lambda event: None))
        plan = planned(host)
        grader = GraderProcess(host.home, service_root=Path("/"))
        stack.callback(grader.stop)
        grader.start()
        agents = [registered(n, plan, grader, folder) for n in range(WAITING_RUNS + 1)]
        busy, waiting = agents[0], agents[1:]
        stack.enter_context(services_of(host, plan.model_copy(update={"run_id": busy.run_id})))
        for agent in agents:
            grader.admin.ask_baseline(agent.run_id)
            wait_until(lambda agent=agent: grader.admin.status(agent.run_id).baseline is not None, 300)
        links = [link for agent in waiting for link in blocked(agent)]
        print(f"{len(links)} /submit requests wait; measuring", file=sys.stderr, flush=True)
        idle_port = stack.enter_context(idle_server())
        where = machine()
        feeder = Feeder(busy)
        feeder.start()
        took = measured(agents, idle_port, feeder, options.requests)
        still = sum(json.loads(agent.get("health"))["queue_length"] for agent in waiting)
        feeder.is_over.set()
    figures = {
        "machine": where,
        "blocked_submits": still,
        "runs": len(agents),
        "scored_meanwhile": len(feeder.scored),
        "scoring_s": feeder.scored,
        "target_p99_ms": TARGET_MS,
        "ms": {route: summary([1000 * seconds for seconds in times]) for route, times in took.items()},
    }
    lines = [f"{len(agents)} runs, {still} blocked /submit, {len(feeder.scored)} submissions scored meanwhile"]
    for route, s in figures["ms"].items():
        name = "(idle server)" if route == "idle" else f"/{route}"
        lines.append(f"{name:14} n {s['n']:5}  p50 {s['p50']:6.1f} ms  p99 {s['p99']:6.1f} ms  max {s['max']:6.1f} ms")
    report(figures, [*lines, f"target: p99 of /time and /health under {TARGET_MS:.0f} ms"], as_json=options.json)


def planned(host: Host) -> RunPlan:
    """A plan of the arithmetic benchmark with model and data in the store."""
    launcher = Launcher(host, lambda progress: None)
    draft = launcher.draft(RunRequest(agent="noop", task="arithmetic", protocol="paper"))
    host.require_images(draft)
    return complete(draft, *launcher.prepare(draft))


def registered(number: int, plan: RunPlan, grader: GraderProcess, folder: Path) -> Agent:
    """A run on an address of its own, its clock started, its checkpoints written."""
    token, network = secrets.token_urlsafe(32), f"127.9.{number + 1}"
    run_id = f"{plan.run_id}-{number}"
    workspace = folder / "workspaces" / run_id
    count = OPEN_PER_RUN if number else CHECKPOINTS
    for n in range(count):
        write_checkpoint(grader.home.path / plan.model.path, workspace / "output" / f"v{n}", number * CHECKPOINTS + n)
    digest = hashlib.sha256(token.encode()).hexdigest()
    own = plan.model_copy(update={"run_id": run_id})
    grader.admin.register(RegisterRun(plan=own, owner=current_owner(), token_sha256=digest, subnet=f"{network}.0/28"))
    now = now_utc()
    grader.admin.start_clock(run_id, StartClock(started_at=now, deadline=now + timedelta(hours=1)))
    grader.admin.hand_over(run_id, workspace)
    return Agent(run_id, token, f"{network}.3", workspace, grader.port)


def write_checkpoint(base: Path, target: Path, number: int) -> None:
    """The base model with one weight changed, so that no two are the same bytes."""
    shutil.copytree(base, target)
    target.chmod(0o755)
    weights = target / "model.safetensors"
    weights.chmod(0o644)
    raw = bytearray(weights.read_bytes())
    raw[-4:] = struct.pack("<f", 1e-3 * (number + 1))
    weights.write_bytes(raw)


def blocked(agent: Agent) -> list[http.client.HTTPConnection]:
    """Open `/submit` requests of a run that has no services: they are admitted, and then wait for ever."""
    links = [agent.begin_submit(n) for n in range(OPEN_PER_RUN)]
    wait_until(lambda: json.loads(agent.get("health"))["queue_length"] == OPEN_PER_RUN, 60)
    return links


@contextmanager
def services_of(host: Host, plan: RunPlan) -> Iterator[None]:
    """The real inference and scorer containers of one run."""
    home: Home = host.home
    owner, memory_mb = current_owner(), inference_memory_mb(plan.model.size_bytes)
    services = [
        inference_service(home, plan.run_id, owner, plan.engine, memory_mb),
        scorer_service(home, plan.run_id, owner, plan.images["scorer"], plan.benchmark.path),
    ]
    try:
        start_services(host.client, home, services, 120)
        yield
    finally:
        remove_services(host.client, home, plan.run_id)


@contextmanager
def idle_server() -> Iterator[int]:
    """The port of a server in a process of its own that answers at once."""
    with subprocess.Popen([sys.executable, "-c", IDLE_SERVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def measured(agents: Sequence[Agent], idle_port: int, feeder: Feeder, count: int) -> dict[str, list[float]]:
    """Seconds of each request, by route, over all runs in turn; goes on until a submission was scored meanwhile."""
    took: dict[str, list[float]] = {route: [] for route in (*ROUTES, "idle")}
    number = 0
    while number < count or not feeder.scored:
        agent, route = agents[number % len(agents)], ROUTES[number // len(agents) % 2]
        started = time.perf_counter()
        agent.get(route)
        took[route].append(time.perf_counter() - started)
        started = time.perf_counter()
        fetched(http.client.HTTPConnection("127.0.0.1", idle_port, 30), "/")
        took["idle"].append(time.perf_counter() - started)
        number += 1
        time.sleep(PACE_S)
    return took


if __name__ == "__main__":
    main()
