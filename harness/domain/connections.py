"""What a run reached of the outside through the gateway's proxy: its connections, and their sums per host."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from harness.domain.admin import EventIn
from harness.domain.base import Frozen, Numbered
from harness.domain.specs import NetworkPolicy

# Kind of the event that keeps a run's sums.
NETWORK = "network"
# How runs that reached more than grader and gateway are marked wherever runs are shown; they are ranked apart.
OPEN_NETWORK = "open-network"
MAX_HOSTS = 100
# Hosts beyond that, as one.
OTHERS = "others"

# `failed`: allowed, but the host did not answer.
ConnectionVerdict = Literal["allowed", "refused", "failed"]
Bytes = Annotated[int, Field(ge=0)]


class Connection(Numbered):
    """One request of an agent to the proxy, and what went through: `up` from the agent, `down` to it.

    Where it asked for no host that there could be, `host` is what it asked for, and `port` is 0.
    """

    at: datetime
    host: str
    port: int
    verdict: ConnectionVerdict
    reason: str = ""
    bytes_up: Bytes = 0
    bytes_down: Bytes = 0
    seconds: float = 0.0


class HostUse(Frozen):
    """What a run did with one host."""

    host: str
    allowed: int = 0
    refused: int = 0
    failed: int = 0
    bytes_up: Bytes = 0
    bytes_down: Bytes = 0


class NetworkUse(Frozen):
    """What a run did with all of them, most bytes first."""

    hosts: tuple[HostUse, ...] = ()


def label_of(policy: NetworkPolicy) -> str | None:
    """The mark of a run under `policy`; None where there is nothing to mark."""
    return OPEN_NETWORK if policy is NetworkPolicy.ALLOWLIST else None


def network_use(connections: Iterable[Connection]) -> NetworkUse:
    """The sums per host. What an agent was refused can have any name: past 100 hosts they are summed as one."""
    by_host: dict[str, HostUse] = {}
    for one in connections:
        by_host[one.host] = _added(by_host.get(one.host) or HostUse(host=one.host), _use(one))
    ordered = sorted(by_host.values(), key=lambda use: (-use.bytes_up - use.bytes_down, -use.allowed, use.host))
    kept, rest = ordered[:MAX_HOSTS], ordered[MAX_HOSTS:]
    if rest:
        others = HostUse(host=OTHERS)
        for use in rest:
            others = _added(others, use)
        kept.append(others)
    return NetworkUse(hosts=tuple(kept))


def network_event(connections: Iterable[Connection]) -> EventIn:
    """The event that keeps the sums of a run's connections."""
    return EventIn(kind=NETWORK, detail=network_use(connections).model_dump(mode="json"))


def _use(one: Connection) -> HostUse:
    counted = HostUse(host=one.host, bytes_up=one.bytes_up, bytes_down=one.bytes_down)
    return counted.model_copy(update={one.verdict: 1})


def _added(one: HostUse, other: HostUse) -> HostUse:
    names = ("allowed", "refused", "failed", "bytes_up", "bytes_down")
    return one.model_copy(update={name: getattr(one, name) + getattr(other, name) for name in names})
