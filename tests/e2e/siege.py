"""Four runs at once: `hostile` tries everything, `flood` uses up every limit, `immortal` outlives its deadline, and
`bystander` is an honest neighbour.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from harness.home import Home
from harness.sandbox.compose import grader_container
from harness.sandbox.containers import ZONE_AGENT, find_container
from harness.sandbox.host_listener import host_addresses
from harness.sandbox.networks import find_run_network
from tests.e2e.listening import listening
from tests.e2e.live import Harness, LiveRun, await_true

# Reserved for documentation (RFC 5737): nobody has them.
OUTSIDE = ["192.0.2.1", "198.51.100.1", "203.0.113.1"]
BYSTANDER_PORT = 8099
OPTIONS = ("--protocol", "paper", "--limit", "8")
HOSTILE_TIMEOUT_S, FLOOD_DISK_MB, IMMORTAL_TIMEOUT_S = 400, 200, 30
Report = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """One finished run: what `harness run --json` said, what the agent noted, and where its folder is."""

    facts: dict[str, Any]
    report: Report
    folder: Path

    @property
    def run_id(self) -> str:
        return str(self.facts["run_id"])


@dataclass(frozen=True)
class Siege:
    """All runs, and what the host saw meanwhile."""

    hostile: Outcome
    flood: Outcome
    immortal: Outcome
    bystander: Outcome
    token: str
    needles: list[bytes]
    callers: list[str]
    bytes_before: str
    bytes_after: str
    grader_before: dict[str, Any]
    grader_after: dict[str, Any]
    grader_log: str


def lay_siege(harness: Harness, engine: DockerClient) -> Siege:
    """Sees all runs to their verdicts."""
    bystander = harness.start("bystander", *OPTIONS, "--timeout", "500")
    runs = [bystander]
    ready = bystander.folder.workspace / "code" / "ready"
    try:
        await_true(lambda: ready.exists() or bystander.process.poll() is not None, 300, "the bystander's first score")
        needles, before = hidden_texts(harness.home), fingerprint(harness.home)
        grader = grader_state(engine, harness.home)
        addresses = host_addresses()
        with listening([address for address in addresses if ":" not in address]) as server:
            targets = targets_of(harness, engine, bystander, needles)
            server.callers.clear()
            write_targets(harness, targets | {"host_port": server.port, "host": addresses})
            runs.append(
                harness.start("hostile", *OPTIONS, "--timeout", str(HOSTILE_TIMEOUT_S), "--max-submissions", "100")
            )
            flood_options = ("--timeout", "300", "--memory-mb", "1500", "--disk-mb", str(FLOOD_DISK_MB))
            runs.append(harness.start("flood", *OPTIONS, *flood_options))
            runs.append(harness.start("immortal", *OPTIONS, "--timeout", str(IMMORTAL_TIMEOUT_S)))
            facts = [run.conclude() for run in runs[1:]]
            callers = list(server.callers)
        (bystander.folder.workspace / "code" / "stop").touch()
        facts.append(bystander.conclude())
    finally:
        for run in runs:
            end(run)
    outcomes = [
        Outcome(known, report_of(run), run.folder.path) for known, run in zip(facts, [*runs[1:], runs[0]], strict=True)
    ]
    return Siege(
        *outcomes,
        token=targets["other"]["token"],
        needles=needles,
        callers=callers,
        bytes_before=before,
        bytes_after=fingerprint(harness.home),
        grader_before=grader,
        grader_after=grader_state(engine, harness.home),
        grader_log=grader_log(engine, harness.home),
    )


def hidden_texts(home: Home) -> list[bytes]:
    """Hidden questions as they lie in the grader's file: the agent cannot have them by accident."""
    lines = next(home.eval.rglob("test.jsonl")).read_bytes().splitlines()
    return lines[:: max(1, len(lines) // 50)]


def fingerprint(home: Home) -> str:
    """Of every byte of models, train and hidden items, and of their modes."""
    total = hashlib.sha256()
    for folder in (home.models, home.train, home.eval):
        for path in sorted(folder.rglob("*")):
            total.update(f"{path} {path.stat().st_mode}".encode())
            if path.is_file():
                total.update(path.read_bytes())
    return total.hexdigest()


def targets_of(harness: Harness, engine: DockerClient, other: LiveRun, needles: list[bytes]) -> dict[str, Any]:
    """What an attacker could have learnt by other means."""
    home, network = harness.home, find_run_network(engine, harness.home, other.run_id)
    agent = find_container(engine, home, other.run_id, ZONE_AGENT)
    assert network is not None
    assert agent is not None
    grader = engine.api.inspect_container(grader_of(engine, home))["NetworkSettings"]["Networks"]
    core = next(entry["IPAddress"] for name, entry in grader.items() if name.endswith("core"))
    pools = [pool for known in engine.api.networks() for pool in (known["IPAM"].get("Config") or [])]
    gateways = sorted({str(pool["Gateway"]).split("/")[0] for pool in pools if pool.get("Gateway")})
    inside = ["/var/lib/harness/eval", "/var/lib/harness/db/harness.db", "/var/lib/harness/sock/admin/admin.sock"]
    sockets = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"]
    hidden = [home.eval, next(home.eval.rglob("test.jsonl")), home.db, home.admin_socket, other.folder.token]
    return {
        "paths": [*map(str, hidden), *inside, *sockets],
        "needles": [base64.b64encode(needle).decode() for needle in needles],
        "docker": gateways,
        "outside": OUTSIDE,
        "other": {
            "agent": network.agent,
            "grader": network.grader,
            "gateway": network.gateway,
            "core": core,
            "port": BYSTANDER_PORT,
            "token": other.folder.token.read_text(),
        },
    }


def write_targets(harness: Harness, targets: dict[str, Any]) -> None:
    (harness.agents / "hostile" / "targets.json").write_text(json.dumps(targets))


def grader_of(engine: DockerClient, home: Home) -> str:
    found = grader_container(engine, home)
    assert found is not None
    return found.container_id


def grader_state(engine: DockerClient, home: Home) -> dict[str, Any]:
    """Which container the grader is and since when it runs: the same afterwards means that it never went down."""
    state = engine.api.inspect_container(grader_of(engine, home))
    return {
        "id": state["Id"],
        "restarts": state["RestartCount"],
        "started": state["State"]["StartedAt"],
        "oom": state["State"]["OOMKilled"],
    }


def grader_log(engine: DockerClient, home: Home) -> str:
    return engine.api.logs(grader_of(engine, home)).decode(errors="replace")


def report_of(run: LiveRun) -> Report:
    path = run.folder.collected / "code" / "report.json"
    if not path.is_file():
        log = (
            run.folder.agent_log.read_bytes()[-3000:].decode(errors="replace") if run.folder.agent_log.exists() else ""
        )
        pytest.fail(f"{run.run_id} left no report; its log ends:\n{log}\nthe harness said:\n{run.words[-2000:]}")
    report: Report = json.loads(path.read_text())
    return report


def end(run: LiveRun) -> None:
    """Ends a run that a failure left; one that has ended is left alone."""
    if run.process.poll() is None:
        run.process.terminate()
        try:
            run.process.wait(60)
        except Exception:
            run.process.kill()
            raise
