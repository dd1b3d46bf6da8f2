"""The containers behind a run's scores: inference, scorer, executor; cut off but for one unix socket each."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.types import Mount
from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.engines import engine_environment
from harness.domain.runs import Owner
from harness.domain.specs import EngineSpec
from harness.errors import ServiceUnavailable
from harness.home import SOCKET_DIR_MODE, Home
from harness.sandbox.containers import (
    SERVICE_ZONES,
    ZONE_EXECUTOR,
    ZONE_INFERENCE,
    ZONE_SCORER,
    find_container,
    remove_container,
)
from harness.sandbox.engine import docker_errors, labels, log_tail
from harness.sandbox.hardening import Isolation, Resources, bind, confined, host_config, service_user, temporary
from harness.unix_socket import reachable

SOCKET_NAME = "s.sock"
_READY_POLL_S = 0.1
# What torch and transformers take before the first weight is loaded, and what a batch of long prompts does beside
# weights: 32 of 800 tokens were seen to take 2 GB in a model of 135 million parameters, without a cache of answers.
_INFERENCE_BASE_MB = 7_000
_INFERENCE_MINIMUM_MB = 8_000
# CUDA's libraries, pinned buffers, what Triton compiles, in as many processes as a model is divided among.
_GPU_INFERENCE_MB = 24_000
_GPU_SHM_MB, _GPU_TMP_MB, _GPU_PIDS = 4_000, 4_000, 4_096
_SCORER_MB = 2_000
# Candidates share it; where it runs out the kernel ends the largest of them.
_EXECUTOR_MB = 2_000
# OpenCompass takes 0.7 GB before the first item, and the process of the next evaluation waits ready.
_OPENCOMPASS_IMAGE, _OPENCOMPASS_MB = "harness-opencompass:", 4_000


class Service(Frozen):
    """One service container of a run, not yet started."""

    run_id: str
    owner: Owner
    image: str
    zone: str
    command: tuple[str, ...]
    socket_dir: Path
    mounts: tuple[tuple[Path, str], ...]
    resources: Resources
    environment: dict[str, str] = Field(default_factory=dict)
    isolation: Isolation = Isolation()
    # Of the writable /tmp; without one nothing in the container can be written.
    tmp_mb: int | None = 512
    # Whether Docker starts it anew when it ends with an error code, as an executor does after each session.
    is_restarted: bool = False


class StartedService(Frozen):
    """A service whose socket answers."""

    container_id: str
    socket: Path


def inference_memory_mb(model_bytes: int, *, has_gpus: bool = False) -> int:
    """Memory for a model of this size on disk: 2 bytes a weight there, 4 in use, and two of them at a change.

    On a GPU host a weight is read once, and what counts is CUDA's, vLLM's and its workers' own.
    """
    if has_gpus:
        return _GPU_INFERENCE_MB + 2 * model_bytes // 1_000_000
    return max(_INFERENCE_MINIMUM_MB, _INFERENCE_BASE_MB + 4 * model_bytes // 1_000_000)


def inference_service(
    home: Home, run_id: str, owner: Owner, spec: EngineSpec, memory_mb: int, *, isolation: Isolation = Isolation()
) -> Service:
    """The inference container: models and snapshots read-only, `isolation`'s GPUs, no network, no answers."""
    has_gpus = bool(isolation.gpus)
    return Service(
        run_id=run_id,
        owner=owner,
        image=spec.image,
        zone=ZONE_INFERENCE,
        command=("python", "-m", "harness.inference", "--spec", spec.model_dump_json()),
        socket_dir=home.inference_dir(run_id),
        mounts=((home.models, "/models"), (home.snapshots, "/snapshots")),
        resources=Resources(
            memory_mb=memory_mb, pids=_GPU_PIDS if has_gpus else 512, shm_mb=_GPU_SHM_MB if has_gpus else 256
        ),
        environment=engine_environment(spec),
        isolation=isolation,
        tmp_mb=_GPU_TMP_MB if has_gpus else 512,
    )


def executor_service(home: Home, run_id: str, owner: Owner, image: str) -> Service:
    """The executor container: nothing but Python, nothing that can be written, no network."""
    return Service(
        run_id=run_id,
        owner=owner,
        image=image,
        zone=ZONE_EXECUTOR,
        command=("python3", "-m", "harness.executor"),
        socket_dir=home.executor_dir(run_id),
        mounts=(),
        resources=Resources(memory_mb=_EXECUTOR_MB, pids=192, shm_mb=1),
        # Sets must come in the same order each time: equal answers score equally.
        environment={"PYTHONHASHSEED": "0"},
        tmp_mb=None,
        is_restarted=True,
    )


def scorer_service(
    home: Home, run_id: str, owner: Owner, image: str, benchmark: Path, *, has_executor: bool = False
) -> Service:
    """The scorer container: its benchmark's folder, the socket of an executor that is there already; no network."""
    mounts = ((benchmark, "/benchmark"), (home.executor_dir(run_id), "/executor"))
    return Service(
        run_id=run_id,
        owner=owner,
        image=image,
        zone=ZONE_SCORER,
        command=("python", "-m", "harness.scorer"),
        socket_dir=home.scorer_dir(run_id),
        mounts=mounts if has_executor else mounts[:1],
        resources=Resources(
            memory_mb=_OPENCOMPASS_MB if image.startswith(_OPENCOMPASS_IMAGE) else _SCORER_MB, pids=256
        ),
    )


def start_services(client: DockerClient, home: Home, services: list[Service], timeout_s: float) -> list[StartedService]:
    """Starts them all, then waits for each socket; if one fails, none is left.

    Raises:
        ServiceUnavailable: one ended or did not answer within `timeout_s`; its last words are in the message.
        PrerequisiteError: an image or a mount source is missing.
    """
    deadline = time.monotonic() + timeout_s
    started: list[str] = []
    try:
        for service in services:
            started.append(_create(client, home, service))
            with docker_errors(f"starting the {service.zone} service of {service.run_id}"):
                client.api.start(started[-1])
        return [
            _ready(client, service, container, deadline) for service, container in zip(services, started, strict=True)
        ]
    except BaseException:
        for container in started:
            remove_container(client, container)
        raise


def stop_services(client: DockerClient, home: Home, run_id: str) -> None:
    """Removes the run's service containers; they may be gone."""
    for zone in SERVICE_ZONES:
        container = find_container(client, home, run_id, zone)
        if container is not None:
            remove_container(client, container)


def _create(client: DockerClient, home: Home, service: Service) -> str:
    uid, gid = service_user()
    prepare_socket_dir(service.socket_dir, uid, gid)
    mounts: list[Mount] = [bind(source, target, read_only=True) for source, target in service.mounts]
    mounts.append(bind(service.socket_dir, "/sock", read_only=False))
    more: dict[str, Any] = {} if service.tmp_mb is None else {"tmpfs": temporary(service.tmp_mb)}
    if service.is_restarted:
        more["restart_policy"] = {"Name": "on-failure"}
    config: dict[str, Any] = {
        "entrypoint": list(confined()),
        "command": list(service.command),
        "name": f"harness-{service.run_id}-{service.zone}",
        "hostname": service.zone,
        "user": f"{uid}:{gid}",
        "environment": {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", **service.environment},
        "labels": labels(home.label, service.run_id, service.zone, service.owner),
        "healthcheck": {"test": ["NONE"]},
        "host_config": host_config(client, service.resources, service.isolation, mounts, **more),
    }
    with docker_errors(f"creating the {service.zone} service of {service.run_id}"):
        return str(client.api.create_container(service.image, **config)["Id"])


def prepare_socket_dir(folder: Path, uid: int, gid: int) -> None:
    """An empty directory for one service's socket, owned by its user; what a dead one left there is removed."""
    if folder.is_symlink() or folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    folder.chmod(SOCKET_DIR_MODE)
    folder.parent.chmod(SOCKET_DIR_MODE)
    if os.geteuid() == 0:
        os.chown(folder, uid, gid)


def _ready(client: DockerClient, service: Service, container_id: str, deadline: float) -> StartedService:
    path = service.socket_dir / SOCKET_NAME
    await_socket(client, container_id, path, f"{service.zone} service of {service.run_id}", deadline)
    return StartedService(container_id=container_id, socket=path)


def await_socket(client: DockerClient, container_id: str, path: Path, what: str, deadline: float) -> None:
    """Returns when the service in a container answers on its socket.

    Raises:
        ServiceUnavailable: it ended, or does not answer until `deadline` (monotonic); `what` names it.
    """
    while time.monotonic() < deadline:
        if answers(path):
            return
        with docker_errors(f"looking at the {what}"):
            state = client.api.inspect_container(container_id)["State"]
        if not state["Running"] or state["Restarting"]:
            ended = f"the {what} ended with {state['ExitCode']} before it answered"
            raise ServiceUnavailable(f"{ended}: {log_tail(client, container_id)}")
        time.sleep(_READY_POLL_S)
    raise ServiceUnavailable(f"the {what} did not answer in time: {log_tail(client, container_id)}")


def answers(path: Path) -> bool:
    """Whether a server takes connections on the socket at `path` (a link there is not followed)."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX) as link, reachable(path) as address:
            link.settimeout(1)
            link.connect(address)
    except OSError:
        return False
    return True
