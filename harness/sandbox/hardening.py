"""What every untrusted container is locked down with: one host configuration for agents, services and data scripts."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from harness.domain.base import Frozen
from harness.sandbox.engine import open_files_limit
from harness.sandbox.mounts import bind_source

AGENT_ID = 1000
SERVICE_ID = 65532
_NOFILE = 65_536
_MEGABYTE = 1_000_000


class Resources(Frozen):
    """What a container may use. `fsize_mb` caps a single file, where nothing stronger caps the disk."""

    memory_mb: int
    pids: int
    shm_mb: int = 64
    cpus: float | None = None
    cpuset: str | None = None
    fsize_mb: int | None = None
    log_mb: int = 10


class Isolation(Frozen):
    """How a container is cut off: `network` is a network's name or id, or `none`; `runtime` empty for the default."""

    network: str = "none"
    runtime: str = ""
    gpus: tuple[str, ...] = ()
    has_cdi_only: bool = False


def agent_user() -> tuple[int, int]:
    """uid and gid of agents: never root; the harness's own user where that is not root and cannot chown."""
    return (AGENT_ID, AGENT_ID) if os.geteuid() == 0 else (os.getuid(), os.getgid())


def service_user() -> tuple[int, int]:
    """uid and gid of inference, scorer and data containers: another than the agents', where the harness can choose."""
    return (SERVICE_ID, SERVICE_ID) if os.geteuid() == 0 else (os.getuid(), os.getgid())


@cache
def confined() -> tuple[str, ...]:
    """The entry point of every untrusted container: sets one more system call filter, then runs the command."""
    script = Path(__file__).with_name("confine_script.py").read_text()
    return ("python3", "-I", "-S", "-c", script)


def bind(source: Path, target: str, *, read_only: bool) -> Mount:
    """A bind of a checked host path; unlike `volumes=` it never makes a missing source.

    Raises:
        PrerequisiteError: see `bind_source`.
    """
    return Mount(target=target, source=str(bind_source(source)), type="bind", read_only=read_only)


def host_config(
    client: DockerClient,
    resources: Resources,
    isolation: Isolation,
    mounts: list[Mount],
    **more: Any,
) -> dict[str, Any]:
    """The hardened host configuration; `more` adds (names, resolver), it cannot weaken."""
    files = min(_NOFILE, open_files_limit(client))
    ulimits = [Ulimit(name="core", soft=0, hard=0), Ulimit(name="nofile", soft=files, hard=files)]
    if resources.fsize_mb is not None:
        size = resources.fsize_mb * _MEGABYTE
        ulimits.append(Ulimit(name="fsize", soft=size, hard=size))
    memory = f"{resources.memory_mb * _MEGABYTE}b"
    config: dict[str, Any] = client.api.create_host_config(
        network_mode=isolation.network,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        ipc_mode="private",
        cgroupns="private",
        init=True,
        pids_limit=resources.pids,
        mem_limit=memory,
        memswap_limit=memory,
        shm_size=f"{resources.shm_mb * _MEGABYTE}b",
        nano_cpus=int(resources.cpus * 1e9) if resources.cpus else None,
        cpuset_cpus=resources.cpuset,
        ulimits=ulimits,
        # Docker's default keeps a flood for ever. Two files: what the harness has not read yet must not rotate away.
        log_config=LogConfig(type="local", config={"max-size": f"{resources.log_mb}m", "max-file": "2"}),
        runtime=isolation.runtime or None,
        device_requests=gpu_requests(isolation) or None,
        mounts=mounts,
        **more,
    )
    return config


def gpu_requests(isolation: Isolation) -> list[DeviceRequest]:
    """The leased GPUs by UUID (`count=N` would always be the first N); by CDI where the engine has no other way."""
    if not isolation.gpus:
        return []
    if isolation.has_cdi_only:
        names = [f"nvidia.com/gpu={uuid}" for uuid in isolation.gpus]
        return [DeviceRequest(driver="cdi", device_ids=names)]
    return [DeviceRequest(driver="nvidia", device_ids=list(isolation.gpus), capabilities=[["gpu"]])]


def temporary(size_mb: int) -> dict[str, str]:
    """A `/tmp` in memory for services. `exec`: torch and compiled kernels map what they write there."""
    return {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={size_mb * _MEGABYTE}"}
