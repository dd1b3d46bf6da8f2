"""`harness doctor`: a real agent container tries to get out; runs start only where it could not."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker import DockerClient

from harness.domain.base import Frozen, canonical_hash
from harness.domain.specs import Limits
from harness.errors import InfrastructureError, IsolationError
from harness.home import DOCTOR_PREFIX, Home
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
from harness.sandbox.disk import Quota, choose_mode
from harness.sandbox.engine import docker_errors, engine_info, log_tail
from harness.sandbox.hardening import agent_user
from harness.sandbox.host_listener import host_addresses, host_listener
from harness.sandbox.networks import (
    GRADER_ALIAS,
    GRADER_PORT,
    RunNetwork,
    attach_grader,
    create_run_network,
    find_grader,
)
from harness.sandbox.owner import current_owner
from harness.sandbox.reaper import remove_run_objects
from harness.sandbox.watch import wait_exit
from harness.settings import Settings

MODEL_REPO = "doctor/model"
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
_LIMITS = Limits(timeout_s=90, disk_mb=64, memory_mb=512, pids=128, shm_mb=64, log_mb=4)
_PEER_PORT = 8099
_PEER = f"""
import socket
server = socket.create_server(("0.0.0.0", {_PEER_PORT}))
socket.create_connection((socket.gethostbyname(socket.gethostname()), {_PEER_PORT}), timeout=5).close()
print("PEER READY", flush=True)
while True:
    server.accept()[0].close()
"""


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


def require_isolation(client: DockerClient, home: Home, settings: Settings, agent_image: str) -> DoctorReport:
    """A passed report, from the cache where nothing has changed since.

    Raises:
        IsolationError: a probe failed; names which.
        PrerequisiteError, InfrastructureError: it could not be examined.
    """
    report = isolation_report(client, home, settings, agent_image)
    if not report.ok:
        names = ", ".join(result.name for result in report.failed)
        raise IsolationError(f"the sandbox is not tight on this machine: {names}", "See `harness doctor`.")
    return report


def isolation_report(client: DockerClient, home: Home, settings: Settings, agent_image: str) -> DoctorReport:
    """A report, passed or not: of now, or the last one where it passed and nothing has changed since.

    Raises:
        PrerequisiteError, InfrastructureError: it could not be examined.
    """
    return _cached(home, report_key(client, home, settings, agent_image)) or examine(
        client, home, settings, agent_image
    )


def report_key(client: DockerClient, home: Home, settings: Settings, agent_image: str) -> str:
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
            inspect_image(client, agent_image)["Id"],
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


def examine(client: DockerClient, home: Home, settings: Settings, agent_image: str) -> DoctorReport:
    """Starts a real agent container beside another run's, and lets it try; keeps the report.

    Raises:
        InfrastructureError: the grader is not up, or Docker failed.
        PrerequisiteError: an image is missing.
    """
    key = report_key(client, home, settings, agent_image)
    with _stage(client, home, settings, agent_image, "peer") as peer, host_listener() as port:
        _write_agent(peer, _PEER)
        _start_peer(client, peer)
        with _stage(client, home, settings, agent_image, "probe") as probe, _canary(home) as canary:
            attach_grader(client, home, probe.network)
            config = _config(client, home, probe, peer.network)
            config |= {"host_port": port, "canary": canary, "grader_port": GRADER_PORT}
            _write_agent(probe, Path(__file__).with_name("probe_script.py").read_text())
            (probe.agent_folder / "probe.json").write_text(json.dumps(config))
            results = _run(client, probe)
    report = DoctorReport(key=key, ok=all(result.ok for result in results), results=results)
    stage = _cache_file(home).with_suffix(f".{secrets.token_hex(4)}")
    stage.write_text(report.model_dump_json(indent=1))
    stage.replace(_cache_file(home))
    return report


@contextmanager
def _stage(client: DockerClient, home: Home, settings: Settings, image: str, role: str) -> Iterator[AgentContainerSpec]:
    """A run of the doctor's own, with all that a run has; nothing of it is left."""
    run_id = f"{DOCTOR_PREFIX}{secrets.token_hex(4)}-{role}"
    folder = home.run(run_id)
    uid, gid = agent_user()
    quota = Quota(mode=choose_mode(settings), folder=folder.path, size_mb=_LIMITS.disk_mb, uid=uid, gid=gid)
    try:
        # First what bears its owner's name: a mount without one would be taken for a dead process's.
        network = create_run_network(client, home, run_id, settings.network_range)
        for name in ("meta", "model", "data", "agent"):
            _open_folder(folder.path / name)
        quota.create()
        # Docker makes a missing mount point as root, and nobody else could remove it from a folder.
        for name in ("data", f"models/{MODEL_REPO}"):
            (folder.workspace / name).mkdir(parents=True)
        yield AgentContainerSpec(
            home_label=home.label,
            run_id=run_id,
            owner=current_owner(),
            image=image,
            agent_folder=folder.path / "agent",
            meta=folder.meta,
            model=folder.path / "model",
            model_repo_id=MODEL_REPO,
            data=folder.path / "data",
            quota=quota,
            network=network,
            limits=_LIMITS,
            time_limit_s=_LIMITS.timeout_s,
            task="doctor",
            grading_url=f"http://{GRADER_ALIAS}:{GRADER_PORT}/r/doctor",
            runtime=settings.runtime,
        )
    finally:
        remove_run_objects(client, home, run_id)
        quota.remove()
        shutil.rmtree(folder.path, ignore_errors=True)


def _open_folder(folder: Path) -> None:
    """A folder with a file, open to all on the host: inside, only the mount itself can keep it from being changed."""
    folder.mkdir(parents=True)
    (folder / "a-file").write_text("unchanged")
    (folder / "a-file").chmod(0o666)
    folder.chmod(0o777)


def _write_agent(spec: AgentContainerSpec, script: str) -> None:
    (spec.agent_folder / "probe.py").write_text(script)
    (spec.agent_folder / "start.sh").write_text(f"exec python3 -I {AGENT_FOLDER}/probe.py\n")
    for path in spec.agent_folder.iterdir():
        path.chmod(0o666)


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
        "pids": _LIMITS.pids,
        "memory_bytes": _LIMITS.memory_mb * 1_000_000,
        "disk_bytes": probe.quota.limit_bytes,
        "quota": probe.quota.mode.value,
    }


def _run(client: DockerClient, probe: AgentContainerSpec) -> tuple[ProbeResult, ...]:
    container = create_agent(client, probe)
    start_agent(client, container)
    state = wait_exit(client, container, _LIMITS.timeout_s + 30)
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
