"""What services of a run said before they ended by themselves: their logs go with their containers."""

from __future__ import annotations

from docker import DockerClient

from harness.home import Home
from harness.sandbox.containers import SERVICE_ZONES, find_container
from harness.sandbox.engine import log_tail
from harness.sandbox.watch import exit_state

LINES = 200


def last_words(client: DockerClient, home: Home, run_id: str) -> str:
    """The ends of the logs of those services that have ended, each under a line of its own; empty where none has.

    Raises:
        InfrastructureError: Docker failed.
    """
    found = []
    for zone in SERVICE_ZONES:
        container = find_container(client, home, run_id, zone)
        state = exit_state(client, container) if container else None
        if container and state:
            head = f"== {zone} ended at {state.finished_at:%Y-%m-%d %H:%M:%S} UTC with exit code {state.exit_code}"
            found.append(f"{head}\n{log_tail(client, container, LINES)}\n")
    return "".join(found)
