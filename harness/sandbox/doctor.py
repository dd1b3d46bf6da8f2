"""`harness doctor`: a real agent container tries to get out; runs start only where it could not."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker import DockerClient

from harness.domain.base import Frozen, canonical_hash
from harness.errors import InfrastructureError, IsolationError
from harness.home import Home
from harness.sandbox.agent import (
    AGENT_FOLDER,
    DNS_SERVER,
    META_FOLDER,
    WORKSPACE,
    AgentContainerSpec,
    create_agent,
    start_agent,
)
from harness.sandbox.containers import inspect_image
from harness.sandbox.disk import choose_mode
from harness.sandbox.doctor_stage import LIMITS, staged, with_gateway, write_agent
from harness.sandbox.egress import egress_name
from harness.sandbox.engine import docker_errors, engine_info, log_tail
from harness.sandbox.host_listener import host_addresses, host_listener
from harness.sandbox.networks import (
    GATEWAY_PORT,
    GRADER_PORT,
    PROXY_PORT,
    RunNetwork,
    attach_grader,
    find_grader,
)
from harness.sandbox.watch import wait_exit
from harness.settings import Settings

HEALTH_PATH = "/r/doctor/health"
_ADMIN_ROUTES = (
    ("GET", "/runs"),
    ("POST", "/runs"),
    ("GET", "/stats"),
    ("POST", "/import"),
    ("POST", "/runs/doctor/finish"),
    ("POST", "/runs/doctor/events"),
    ("POST", "/set_baseline"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
)
_GATEWAY_ROUTES = (
    ("GET", "/health"),
    ("GET", "/runs"),
    ("POST", "/runs"),
    ("GET", "/events"),
    ("GET", "/runs/doctor/usage"),
    ("POST", "/runs/doctor/close"),
    ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
)
_PEER_PORT = 8099
_PEER = f"""
import socket
server = socket.create_server(("0.0.0.0", {_PEER_PORT}))
socket.create_connection((socket.gethostbyname(socket.gethostname()), {_PEER_PORT}), timeout=5).close()
print("PEER READY", flush=True)
while True:
    server.accept()[0].close()
"""


class ProbedImages(Frozen):
    """What is examined: the agent's image, and the gateway's where it is built."""

    agent: str
    gateway: str | None = None


class ProbeResult(Frozen):
    """One thing that was tried from inside."""

    name: str
    ok: bool
    detail: str


class DoctorReport(Frozen):
    """All that was tried; `key` changes with anything that could change a result."""

    key: str
    ok: bool
    results: tuple[ProbeResult, ...]

    @property
    def failed(self) -> tuple[ProbeResult, ...]:
        return tuple(result for result in self.results if not result.ok)


def require_isolation(client: DockerClient, home: Home, settings: Settings, images: ProbedImages) -> DoctorReport:
    """A passed report, from the cache where nothing has changed since.

    Raises:
        IsolationError: a probe failed; names which.
        PrerequisiteError, InfrastructureError: it could not be examined.
    """
    report = isolation_report(client, home, settings, images)
    if not report.ok:
        names = ", ".join(result.name for result in report.failed)
        raise IsolationError(f"the sandbox is not tight on this machine: {names}", "See `harness doctor`.")
    return report


def isolation_report(client: DockerClient, home: Home, settings: Settings, images: ProbedImages) -> DoctorReport:
    """A report, passed or not: of now, or the last one where it passed and nothing has changed since.

    Raises:
        PrerequisiteError, InfrastructureError: it could not be examined.
    """
    return _cached(home, report_key(client, home, settings, images)) or examine(client, home, settings, images)


def report_key(client: DockerClient, home: Home, settings: Settings, images: ProbedImages) -> str:
    """Changes with the boot, the daemon's start, the images, this code, and the settings that shape a sandbox."""
    info = engine_info(client)
    with docker_errors("looking at the grader"):
        grader = client.api.inspect_container(find_grader(client, home))
    code = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        code.update(path.read_bytes())
    return canonical_hash(
        [
            info.boot_id,
            info.start_identity,
            inspect_image(client, images.agent)["Id"],
            inspect_image(client, images.gateway)["Id"] if images.gateway else "",
            grader["Image"],
            code.hexdigest(),
            settings.runtime,
            settings.network_range,
            choose_mode(settings).value,
        ]
    )


def _cache_file(home: Home) -> Path:
    return home.cache / "doctor.json"


def _cached(home: Home, key: str) -> DoctorReport | None:
    try:
        report = DoctorReport.model_validate_json(_cache_file(home).read_bytes())
    except (OSError, ValueError):
        return None
    return report if report.key == key and report.ok else None


def examine(client: DockerClient, home: Home, settings: Settings, images: ProbedImages) -> DoctorReport:
    """Starts a real agent container beside another run's, and lets it try; keeps the report.

    Raises:
        InfrastructureError: the grader is not up, or Docker failed.
        PrerequisiteError: an image is missing.
    """
    key = report_key(client, home, settings, images)
    with staged(client, home, settings, images.agent, "peer") as peer, host_listener() as port:
        write_agent(peer, _PEER)
        _start_peer(client, peer)
        with staged(client, home, settings, images.agent, "probe") as stage, _canary(home) as canary:
            probe = with_gateway(client, home, stage, images.gateway) if images.gateway else stage
            attach_grader(client, home, probe.network)
            config = _config(client, home, probe, peer.network)
            config |= {"host_port": port, "canary": canary, "grader_port": GRADER_PORT}
            config["llm_gateway"] = _gateway_config(client, home, probe.network) if images.gateway else None
            write_agent(probe, Path(__file__).with_name("probe_script.py").read_text())
            (probe.agent_folder / "probe.json").write_text(json.dumps(config))
            results = _run(client, probe)
    report = DoctorReport(key=key, ok=all(result.ok for result in results), results=results)
    written = _cache_file(home).with_suffix(f".{secrets.token_hex(4)}")
    written.write_text(report.model_dump_json(indent=1))
    written.replace(_cache_file(home))
    return report


def _start_peer(client: DockerClient, peer: AgentContainerSpec) -> None:
    container = create_agent(client, peer)
    start_agent(client, container)
    deadline = time.monotonic() + 20
    while "PEER READY" not in log_tail(client, container):
        if time.monotonic() > deadline:
            raise InfrastructureError(f"the doctor's second container does not answer: {log_tail(client, container)}")
        time.sleep(0.1)


@contextmanager
def _canary(home: Home) -> Iterator[str]:
    """A file with a name of its own among the hidden data, for the probe to look for everywhere."""
    name = f".canary-{secrets.token_hex(8)}"
    path = home.eval / name
    path.touch(mode=0o600)
    try:
        yield name
    finally:
        path.unlink(missing_ok=True)


def _config(client: DockerClient, home: Home, probe: AgentContainerSpec, peer: RunNetwork) -> dict[str, object]:
    addresses = host_addresses()
    with docker_errors("asking for Docker's own networks"):
        pools = [pool for network in client.api.networks() for pool in (network["IPAM"].get("Config") or [])]
    gateways = sorted({str(pool["Gateway"]).split("/")[0] for pool in pools if pool.get("Gateway")})
    return {
        "gateway": probe.network.gateway,
        "host_addresses": addresses,
        "docker_addresses": [gateway for gateway in gateways if gateway != probe.network.gateway],
        "other_run": [peer.agent, peer.gateway],
        "other_run_port": _PEER_PORT,
        "grader": probe.network.grader,
        "health_path": HEALTH_PATH,
        "admin_routes": _ADMIN_ROUTES,
        "outside": [DNS_SERVER, "198.51.100.1"],
        "hidden_paths": [str(path) for path in (home.path, home.eval, home.db, home.admin_socket)]
        + ["/var/lib/harness", "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"],
        "mounts": [WORKSPACE, "/tmp", probe.model_path, f"{WORKSPACE}/data", META_FOLDER, AGENT_FOLDER],
        "read_only": {
            "model_read_only": probe.model_path,
            "train_data_read_only": f"{WORKSPACE}/data",
            "task_files_read_only": META_FOLDER,
            "agent_folder_read_only": AGENT_FOLDER,
        },
        "pids": LIMITS.pids,
        "memory_bytes": LIMITS.memory_mb * 1_000_000,
        "disk_bytes": probe.quota.limit_bytes,
        "quota": probe.quota.mode.value,
    }


def _gateway_config(client: DockerClient, home: Home, network: RunNetwork) -> dict[str, object]:
    """Where the gateway beside the probe is: what of it may answer, and its side that nobody is to reach."""
    with docker_errors("asking for the gateways' network"):
        outside = client.api.inspect_network(egress_name(home))
    beyond = [str(member["IPv4Address"]).split("/")[0] for member in outside["Containers"].values()]
    return {
        "address": network.llm_gateway,
        "ports": [GATEWAY_PORT, PROXY_PORT],
        "routes": _GATEWAY_ROUTES,
        "beyond": beyond + [str(pool["Gateway"]) for pool in outside["IPAM"]["Config"]],
    }


def _run(client: DockerClient, probe: AgentContainerSpec) -> tuple[ProbeResult, ...]:
    container = create_agent(client, probe)
    start_agent(client, container)
    state = wait_exit(client, container, LIMITS.timeout_s + 30)
    with docker_errors("reading what the probe says"):
        lines = client.api.logs(container).decode(errors="replace").splitlines()
    found = [line.removeprefix("PROBE ") for line in lines if line.startswith("PROBE ")]
    if state is None or state.exit_code != 0 or not found:
        # Fails closed: a probe that broke off has proven nothing.
        ended = "still runs" if state is None else f"ended with {state.exit_code}"
        return (ProbeResult(name="probe", ok=False, detail=f"{ended}: {' / '.join(lines[-8:])}"),)
    results = [ProbeResult.model_validate(row) for row in json.loads(found[-1])]
    return (*results, _unchanged(probe))


def _unchanged(probe: AgentContainerSpec) -> ProbeResult:
    """The host's own look at what the probe tried to change."""
    folders = (probe.model, probe.data, probe.meta)
    changed = [
        str(folder)
        for folder in folders
        if [path.name for path in folder.iterdir()] != ["a-file"] or (folder / "a-file").read_text() != "unchanged"
    ]
    return ProbeResult(name="bytes_unchanged", ok=not changed, detail=f"changed: {changed}" if changed else "as before")
