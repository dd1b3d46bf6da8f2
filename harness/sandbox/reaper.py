"""What a run has left on this machine: found by label and path, removed without touching anybody else's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from docker import DockerClient
from pydantic import ValidationError

from harness.domain.base import Frozen
from harness.domain.runs import Owner
from harness.errors import InfrastructureError
from harness.home import Home
from harness.sandbox.containers import remove_container
from harness.sandbox.disk import detach_filesystem, loop_devices
from harness.sandbox.engine import LABEL_HOME, LABEL_OWNER, LABEL_RUN, docker_errors
from harness.sandbox.mounts import mount_points
from harness.sandbox.networks import remove_network
from harness.sandbox.owner import is_alive


class RunObjects(Frozen):
    """Everything of one run that outlives a dead harness."""

    run_id: str
    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    mounts: tuple[Path, ...] = ()
    loop_devices: tuple[str, ...] = ()
    socket_dirs: tuple[Path, ...] = ()
    owners: tuple[Owner, ...] = ()

    @property
    def has_living_owner(self) -> bool:
        return any(is_alive(owner) for owner in self.owners)


class _Found:
    """Objects by run id while they are being collected."""

    def __init__(self) -> None:
        self._by_run: dict[str, dict[str, list[Any]]] = {}

    def add(self, run_id: str, kind: str, value: Any) -> None:
        values = self._by_run.setdefault(run_id, {}).setdefault(kind, [])
        if value not in values:
            values.append(value)

    def result(self) -> dict[str, RunObjects]:
        return {
            run_id: RunObjects(run_id=run_id, **{kind: tuple(values) for kind, values in kinds.items()})
            for run_id, kinds in sorted(self._by_run.items())
        }


def list_objects(client: DockerClient, home: Home) -> dict[str, RunObjects]:
    """Run id -> what exists of it, for this home only. Objects without our labels are never seen."""
    found = _Found()
    _add_docker_objects(client, home, f"{LABEL_HOME}={home.label}", found)
    runs = home.runs.resolve()
    for mount in mount_points():
        if mount.is_relative_to(runs) and mount != runs:
            found.add(mount.relative_to(runs).parts[0], "mounts", mount)
    for device, file in loop_devices().items():
        if file.is_relative_to(runs):
            found.add(file.relative_to(runs).parts[0], "loop_devices", device)
    sockets = home.sockets / "runs"
    for folder in sorted(sockets.iterdir()) if sockets.is_dir() else ():
        found.add(folder.name, "socket_dirs", folder)
    return found.result()


def _add_docker_objects(client: DockerClient, home: Home, label: str, found: _Found) -> None:
    with docker_errors(f"listing what belongs to {home.path}"):
        containers = client.api.containers(all=True, filters={"label": label})
        networks = client.api.networks(filters={"label": label})
    for container in containers:
        _add_labelled(container, "containers", found)
    for network in networks:
        _add_labelled(network, "networks", found)


def _add_labelled(item: dict[str, Any], kind: str, found: _Found) -> None:
    marks: dict[str, str] = item.get("Labels") or {}
    run_id = marks.get(LABEL_RUN)
    if not run_id:
        return  # The grader itself, Compose's network: they belong to no run.
    found.add(run_id, kind, item["Id"])
    with suppress(ValidationError):
        found.add(run_id, "owners", Owner.model_validate_json(marks.get(LABEL_OWNER, "")))


def orphans(client: DockerClient, home: Home, live_run_ids: Iterable[str]) -> list[RunObjects]:
    """What belongs to runs that are not live, and that no living harness process has just started."""
    live = set(live_run_ids)
    return [
        objects
        for run_id, objects in list_objects(client, home).items()
        if run_id not in live and not objects.has_living_owner
    ]


def remove_run_objects(client: DockerClient, home: Home, run_id: str) -> RunObjects:
    """Removes all of a run but its files (a workspace image stays, detached); returns what there was.

    Raises:
        InfrastructureError: something could not be removed; all else has been.
    """
    objects = list_objects(client, home).get(run_id, RunObjects(run_id=run_id))
    failed = _all([partial(remove_container, client, container) for container in objects.containers])
    # Containers hold on to networks and mounts: those come after, and do not wait for one another.
    networks = [partial(remove_network, client, network) for network in objects.networks]
    failed += _all([*networks, partial(detach_filesystem, home.run(run_id))])
    for folder in objects.socket_dirs:
        shutil.rmtree(folder, ignore_errors=True)
    if failed:
        raise InfrastructureError(f"could not remove all of run {run_id}: {'; '.join(failed)}", "Try `harness clean`.")
    return objects


def _all(steps: Sequence[Callable[[], None]]) -> list[str]:
    """Takes all steps at once; returns what failed."""

    def trouble(step: Callable[[], None]) -> str:
        try:
            step()
        except InfrastructureError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(max(1, len(steps))) as pool:
        return [text for text in pool.map(trouble, steps) if text]
