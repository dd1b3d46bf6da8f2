"""The Docker Engine: connection with deadlines, what it is, the labels of our objects, and its errors in our words."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from docker import DockerClient as DockerClient
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException

from harness.domain.base import Frozen
from harness.domain.runs import Owner
from harness.errors import InfrastructureError, PrerequisiteError
from harness.sandbox.owner import boot_id, start_ticks

API_TIMEOUT_S = 60
OLDEST_ENGINE = (20, 10)

LABEL_HOME = "harness.home"
LABEL_RUN = "harness.run"
LABEL_ZONE = "harness.zone"
LABEL_OWNER = "harness.owner"

_NO_ENGINE = "Start it (`systemctl start docker`), or install it: `make setup` does on Debian and Ubuntu."
_NOT_ALLOWED = "Add this user to the group `docker` and log in again, or run as root."
_NO_GPU_SUPPORT = re.compile(
    r"could not select device driver|unknown runtime|unresolvable CDI|nvidia-container-cli", re.I
)


class EngineInfo(Frozen):
    """What the engine is; `start_identity` changes whenever dockerd is started anew."""

    version: str
    boot_id: str
    start_identity: str
    cgroup_version: str
    storage_driver: str
    runtimes: tuple[str, ...]
    has_cdi: bool
    has_live_restore: bool
    cores: int
    memory_mb: int

    @property
    def has_cdi_only(self) -> bool:
        """Whether GPUs can be given to a container by their CDI names alone."""
        return self.has_cdi and "nvidia" not in self.runtimes


def connect(timeout_s: float = API_TIMEOUT_S) -> DockerClient:
    """A client whose every call ends within `timeout_s` (streams excepted).

    Raises:
        PrerequisiteError: no engine answers here, or it is too old.
    """
    try:
        client = docker.from_env(timeout=int(timeout_s))
        version = str(client.api.version(api_version=False)["Version"])
    except (DockerException, RequestException) as error:
        fix = _NOT_ALLOWED if "Permission denied" in str(error) else _NO_ENGINE
        raise PrerequisiteError(f"Docker does not answer: {error}", fix) from error
    check_version(version)
    return client


def check_version(version: str) -> None:
    """Refuses engines older than 20.10.

    CVE-2024-29018 (an engine before 23.0.11, 25.0.5 or 26.0.0 asks a resolver on the host's loopback on behalf of an
    isolated container) needs no refusal here: it concerns resolvers inherited from the host, and every agent container
    gets its own (`agent.DNS_SERVER`), which is asked from inside the container's network, where no route leads out.

    Raises:
        PrerequisiteError: the engine is too old.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_ENGINE:
        raise PrerequisiteError(f"Docker Engine {version} is too old", "Install 20.10 or newer.")


def engine_info(client: DockerClient) -> EngineInfo:
    """What `client`'s engine is, in one call and a look at /proc."""
    with docker_errors("asking the engine what it is"):
        info: dict[str, Any] = client.api.info()
    return EngineInfo(
        version=str(info["ServerVersion"]),
        boot_id=boot_id(),
        start_identity=start_identity(client),
        cgroup_version=str(info.get("CgroupVersion", "1")),
        storage_driver=str(info["Driver"]),
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        has_cdi=bool(info.get("CDISpecDirs")),
        has_live_restore=bool(info.get("LiveRestoreEnabled")),
        cores=int(info["NCPU"]),
        memory_mb=int(info["MemTotal"]) // 1_000_000,
    )


def start_identity(client: DockerClient) -> str:
    """A text that changes when dockerd restarts: its pid and start time, or else when it made its default bridge."""
    pid = _daemon_pid(client.api.base_url)
    ticks = start_ticks(pid) if pid else None
    if pid and ticks is not None:
        return f"{pid}.{ticks}"
    with docker_errors("asking the engine when it started"):
        return str(client.api.inspect_network("bridge")["Created"])


def open_files_limit(client: DockerClient) -> int:
    """The most open files that the daemon itself may have: where it lacks CAP_SYS_RESOURCE it cannot give more."""
    pid = _daemon_pid(client.api.base_url)
    try:
        limits = Path(f"/proc/{pid or 'self'}/limits").read_text()
    except OSError:
        limits = ""
    found = re.search(r"^Max open files\s+\S+\s+(\d+)", limits, re.M)
    return int(found[1]) if found else 1024


def _daemon_pid(base_url: str) -> int | None:
    """Pid of dockerd: the peer of its socket, or (socket activation) the only process of that name."""
    path = re.sub(r"^(http\+)?unix:/*", "/", base_url)
    candidates = []
    for address in (path, "/var/run/docker.sock"):
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(5)
                link.connect(address)
                peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                candidates.append(struct.unpack("3i", peer)[0])
                break
        except OSError:
            continue
    named = [pid for pid in candidates if _command(pid) == "dockerd"] or _pids_named("dockerd")
    return named[0] if named else None


def _pids_named(name: str) -> list[int]:
    """Pids of the processes with this command name, lowest first."""
    pids = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _command(pid) == name]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def labels(home_label: str, run_id: str | None, zone: str, owner: Owner | None = None) -> dict[str, str]:
    """The labels of a Docker object of ours: by them it is found, and told from other people's."""
    found = {LABEL_HOME: home_label, LABEL_ZONE: zone}
    if run_id is not None:
        found[LABEL_RUN] = run_id
    if owner is not None:
        found[LABEL_OWNER] = owner.model_dump_json()
    return found


@contextmanager
def docker_errors(doing: str) -> Iterator[None]:
    """Turns what the SDK raises inside into our errors, saying what was being done.

    Raises:
        PrerequisiteError: an image or GPU support is missing.
        InfrastructureError: anything else.
    """
    try:
        yield
    except ImageNotFound as error:
        raise PrerequisiteError(f"{doing}: {error.explanation or error}", "Build the images: `make images`.") from error
    except APIError as error:
        text = str(error.explanation or error)
        if _NO_GPU_SUPPORT.search(text):
            fix = "Install the NVIDIA container toolkit and restart Docker, or run on CPU: HARNESS_DEVICE=cpu."
            raise PrerequisiteError(f"{doing}: this Docker has no GPU support ({text})", fix) from error
        raise InfrastructureError(f"{doing}: {text}", "See the engine's log: `journalctl -u docker`.") from error
    except (DockerException, RequestException) as error:
        raise InfrastructureError(f"{doing}: Docker does not answer ({error})", _NO_ENGINE) from error


def is_gone(error: APIError) -> bool:
    """Whether the engine says that the object is not there (any more), or is being removed just now."""
    status = getattr(error.response, "status_code", None)
    return status == 404 or (status == 409 and "already in progress" in str(error.explanation))


def log_tail(client: DockerClient, container_id: str, lines: int = 30) -> str:
    """The last lines that a container wrote; empty if they cannot be had."""
    try:
        raw: bytes = client.api.logs(container_id, tail=lines)
    except (DockerException, RequestException):
        return ""
    return raw[-8_000:].decode(errors="replace").strip()
