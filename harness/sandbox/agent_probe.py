"""A look at an agent's image, and at how its container starts and ends where there is no task and no network."""

from __future__ import annotations

import time

from docker import DockerClient

from harness.domain.base import Frozen
from harness.sandbox.agent import KILL_AFTER_S, AgentContainerSpec, create_agent, start_agent
from harness.sandbox.containers import inspect_image, remove_container, stop_container
from harness.sandbox.engine import docker_errors
from harness.sandbox.watch import wait_exit

LAST_LINES = 20
MAX_LINE = 200
# A moment for what TERM and KILL at the same time leave open.
GRACE_S = KILL_AFTER_S + 2


class ImageFacts(Frozen):
    """What an image says of itself."""

    user: str
    volumes: tuple[str, ...]
    environment: dict[str, str]
    size_bytes: int


class Start(Frozen):
    """How a start went: `was_told` to end after it had been watched, and `ending_s` later it had ended."""

    exit_code: int
    was_told: bool
    ending_s: float
    last_line: str


def image_facts(client: DockerClient, image: str) -> ImageFacts:
    """User, volumes, environment and size of an image.

    Raises:
        PrerequisiteError: it has not been built.
    """
    found = inspect_image(client, image)
    config = found["Config"]
    return ImageFacts(
        user=config.get("User") or "",
        volumes=tuple(config.get("Volumes") or ()),
        environment=dict(word.partition("=")[::2] for word in config.get("Env") or ()),
        size_bytes=int(found["Size"]),
    )


def probe_start(client: DockerClient, spec: AgentContainerSpec, watch_s: float) -> Start:
    """Starts the agent's container, watches it for `watch_s`, tells it to end if it has not, and removes it.

    Raises:
        UsageError: the agent's folder or image is unfit.
        InfrastructureError: Docker failed.
    """
    container = create_agent(client, spec)
    try:
        start_agent(client, container)
        ended = wait_exit(client, container, watch_s)
        was_told, told = ended is None, time.monotonic()
        if ended is None:
            stop_container(client, container, GRACE_S)
            ended = wait_exit(client, container, GRACE_S)
        ending_s = time.monotonic() - told
        with docker_errors("reading what the agent printed"):
            printed = bytes(client.api.logs(container, tail=LAST_LINES)).decode(errors="replace")
    finally:
        remove_container(client, container)
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    exit_code = ended.exit_code if ended else -1
    return Start(
        exit_code=exit_code, was_told=was_told, ending_s=ending_s, last_line=lines[-1][:MAX_LINE] if lines else ""
    )
