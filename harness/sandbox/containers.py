"""Containers by label: find, stop, remove, read what they last said."""

from __future__ import annotations

from typing import Any

from docker import DockerClient
from docker.errors import APIError

from harness.home import Home
from harness.sandbox.engine import LABEL_HOME, LABEL_RUN, LABEL_ZONE, docker_errors, is_gone

ZONE_AGENT = "agent"
ZONE_INFERENCE = "inference"
ZONE_SCORER = "scorer"
ZONE_EXECUTOR = "executor"
ZONE_DATA = "data"
# What scores a run's submissions; started anew together.
SERVICE_ZONES = (ZONE_INFERENCE, ZONE_SCORER, ZONE_EXECUTOR)
ZONE_GATEWAY = "gateway"


def find_container(client: DockerClient, home: Home, run_id: str, zone: str) -> str | None:
    """Id of the run's newest container of that zone, in whatever state."""
    wanted = [f"{LABEL_HOME}={home.label}", f"{LABEL_RUN}={run_id}", f"{LABEL_ZONE}={zone}"]
    with docker_errors(f"looking for the {zone} container of {run_id}"):
        found = client.api.containers(all=True, filters={"label": wanted})
    return str(found[0]["Id"]) if found else None


def stop_container(client: DockerClient, container_id: str, grace_s: int = 10) -> None:
    """TERM to its whole process group, KILL after `grace_s`; it may have ended or be gone already."""
    with docker_errors(f"stopping container {container_id[:12]}"):
        try:
            client.api.stop(container_id, timeout=grace_s)
        except APIError as error:
            if not is_gone(error):
                raise


def inspect_image(client: DockerClient, image: str) -> dict[str, Any]:
    """What the engine knows of `image`; its `Id` is its content's digest.

    Raises:
        PrerequisiteError: it has not been built.
    """
    api: Any = client.api
    with docker_errors(f"looking for image {image}"):
        found: dict[str, Any] = api.inspect_image(image)
        return found


def remove_container(client: DockerClient, container_id: str) -> None:
    """Kills and removes a container; it may be gone already."""
    with docker_errors(f"removing container {container_id[:12]}"):
        try:
            client.api.remove_container(container_id, force=True, v=True)
        except APIError as error:
            if not is_gone(error):
                raise
