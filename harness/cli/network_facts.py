"""What `harness show` tells of a run that reached more than grader and gateway: its mark, its hosts, their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.store.models import EventRecord

Facts = dict[str, Any]
SHOWN_HOSTS = 12


def connections_in(events: Sequence[EventRecord]) -> list[Facts]:
    """The sums per host, as the last of a run's events has them; most bytes first."""
    from harness.domain.connections import NETWORK, NetworkUse

    found = [NetworkUse.model_validate(event.detail) for event in events if event.kind == NETWORK]
    return [host.model_dump() for host in found[-1].hosts] if found else []


def shown_network(facts: Facts) -> Facts:
    """Lines for people; none of a run that had no network."""
    if facts["label"] is None:
        return {}
    used = [host for host in facts["connections"] if host["allowed"] or host["failed"]]
    refused = [f"{host['host']} {host['refused']}" for host in facts["connections"] if host["refused"]]
    return {
        "network": f"{facts['label']}, ranked apart: {', '.join(facts['allowed_hosts'])}",
        "connections": _shortened([_use(host) for host in used], "\n"),
        "refused": _shortened(refused, ", "),
    }


def _use(host: Facts) -> str:
    failed = f", {host['failed']} failed" if host["failed"] else ""
    down, up = (f"{host[name] / 1e6:.2f} MB" for name in ("bytes_down", "bytes_up"))
    return f"{host['host']}: {host['allowed']}{failed}, {down} down, {up} up"


def _shortened(parts: list[str], between: str) -> str:
    more = [f"and {len(parts) - SHOWN_HOSTS} more (--json)"] if len(parts) > SHOWN_HOSTS else []
    return between.join([*parts[:SHOWN_HOSTS], *more])
