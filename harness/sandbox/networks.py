"""Run networks: a /28 for each run, cut off from the host and the world, with the grader at a fixed address."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Network
from itertools import chain
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from harness.domain.base import Frozen
from harness.errors import InfrastructureError, PrerequisiteError
from harness.home import Home
from harness.sandbox.engine import LABEL_HOME, LABEL_RUN, LABEL_ZONE, docker_errors, is_gone, labels
from harness.sandbox.owner import current_owner

GRADER_ALIAS = "grader"
GRADER_PORT = 5000
GATEWAY_ALIAS = "gateway"
GATEWAY_PORT = 8098
PROXY_PORT = 8099
ZONE_NETWORK = "network"
ZONE_GRADER = "grader"
_PREFIX = 28
# Other harness processes take addresses at the same time; each collision costs one more try.
_TRIES = 64


class RunNetwork(Frozen):
    """One run's network and the fixed addresses in it."""

    id: str
    name: str
    subnet: str

    def _address(self, number: int) -> str:
        return str(IPv4Network(self.subnet)[number])

    @property
    def gateway(self) -> str:
        """The bridge's address, which nobody has (`inhibit_ipv4`)."""
        return self._address(1)

    @property
    def grader(self) -> str:
        return self._address(2)

    @property
    def agent(self) -> str:
        return self._address(3)

    @property
    def llm_gateway(self) -> str:
        """The run's LLM gateway, where it has one."""
        return self._address(4)


# Docker's own: nothing but loopback. Its addresses lead nowhere, and at once.
NO_NETWORK = RunNetwork(id="none", name="none", subnet="192.0.2.0/28")


def network_name(run_id: str) -> str:
    return f"harness-{run_id}"


def free_subnets(network_range: str, used: Iterable[IPv4Network], offset: int = 0) -> Iterator[IPv4Network]:
    """The /28s of `network_range` that overlap nothing in `used`, from number `offset` on and round to the start.

    Raises:
        PrerequisiteError: the range is no IPv4 range that holds a /28.
    """
    try:
        whole = IPv4Network(network_range)
        count = 1 << (_PREFIX - whole.prefixlen)
    except ValueError as error:
        raise PrerequisiteError(f"network range {network_range!r}: {error}", "Set HARNESS_NETWORK_RANGE.") from error
    taken = [network for network in used if network.overlaps(whole)]
    first = int(whole.network_address)
    for number in chain(range(offset % count, count), range(offset % count)):
        subnet = IPv4Network((first + number * 16, _PREFIX))
        if not any(subnet.overlaps(network) for network in taken):
            yield subnet


def used_subnets(networks: Iterable[dict[str, Any]], routes: str) -> list[IPv4Network]:
    """What Docker's networks and the host's routes (`/proc/net/route`) occupy, the default route left out."""
    found = []
    for network in networks:
        for pool in (network.get("IPAM") or {}).get("Config") or ():
            if ":" not in pool.get("Subnet", ":"):
                found.append(IPv4Network(pool["Subnet"], strict=False))
    for line in routes.splitlines()[1:]:
        fields = line.split()
        address, mask = (int.from_bytes(bytes.fromhex(fields[k]), "little") for k in (1, 7))
        if mask:
            found.append(IPv4Network((address & mask, mask.bit_count())))
    return found


def create_run_network(client: DockerClient, home: Home, run_id: str, network_range: str) -> RunNetwork:
    """A new network for `run_id`; safe beside other processes that do the same.

    Raises:
        PrerequisiteError: the range is used up.
        InfrastructureError: Docker failed.
    """
    with docker_errors("listing networks"):
        used = used_subnets(client.api.networks(), Path("/proc/net/route").read_text())
    # A random start: processes that begin together seldom try the same subnet.
    candidates = free_subnets(network_range, used, secrets.randbelow(1 << 16))
    for subnet, _ in zip(candidates, range(_TRIES), strict=False):
        network = _try_create(client, home, run_id, subnet)
        if network is not None:
            return network
    raise PrerequisiteError(
        f"no free /{_PREFIX} left in {network_range}",
        "Remove old runs' networks (`harness clean`), or set HARNESS_NETWORK_RANGE to a larger range.",
    )


def _try_create(client: DockerClient, home: Home, run_id: str, subnet: IPv4Network) -> RunNetwork | None:
    """The network, or None when somebody else has the subnet."""
    name = network_name(run_id)
    with docker_errors(f"creating network {name}"):
        try:
            reply = client.api.create_network(
                name,
                driver="bridge",
                internal=True,
                check_duplicate=True,
                # `internal` alone leaves the host reachable through the bridge's own address (docs/isolation.md).
                options={"com.docker.network.bridge.inhibit_ipv4": "true"},
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))]),
                labels=labels(home.label, run_id, ZONE_NETWORK, current_owner()),
            )
        except APIError as error:
            # 403: the pool overlaps with one taken since we looked. 404: what some engines say for the same.
            if error.response is not None and error.response.status_code in (403, 404):
                return None
            raise
    return RunNetwork(id=str(reply["Id"]), name=name, subnet=str(subnet))


def find_run_network(client: DockerClient, home: Home, run_id: str) -> RunNetwork | None:
    """The network that `run_id` has already."""
    filters = {"label": [f"{LABEL_HOME}={home.label}", f"{LABEL_RUN}={run_id}"]}
    with docker_errors("looking for the run's network"):
        for network in client.api.networks(filters=filters):
            subnet = network["IPAM"]["Config"][0]["Subnet"]
            return RunNetwork(id=network["Id"], name=network["Name"], subnet=subnet)
    return None


def find_grader(client: DockerClient, home: Home) -> str:
    """Container id of this home's running grader.

    Raises:
        InfrastructureError: it is not up.
    """
    filters = {"label": [f"{LABEL_HOME}={home.label}", f"{LABEL_ZONE}={ZONE_GRADER}"], "status": "running"}
    with docker_errors("looking for the grader"):
        found = client.api.containers(filters=filters)
    if not found:
        raise InfrastructureError(f"no grader runs for {home.path}", "Start it: `harness up`.")
    return str(found[0]["Id"])


def attach_grader(client: DockerClient, home: Home, network: RunNetwork) -> None:
    """Puts the grader on the run's network, as `grader`, at its fixed address; idempotent.

    Raises:
        InfrastructureError: the grader is not up, or Docker failed.
    """
    grader = find_grader(client, home)
    with docker_errors(f"attaching the grader to {network.name}"):
        try:
            client.api.connect_container_to_network(
                grader, network.id, ipv4_address=network.grader, aliases=[GRADER_ALIAS]
            )
        except APIError as error:
            if "already exists in network" not in str(error.explanation):
                raise


def remove_network(client: DockerClient, network_id: str) -> None:
    """Takes everybody off the network, then removes it; it may be gone already.

    A grader that is still attached when its network goes could not start again (`network not found`), hence the order.
    """
    with docker_errors(f"removing network {network_id[:12]}"):
        try:
            # Not the network's own list of members: that leaves out containers that are down.
            for container in client.api.containers(all=True, filters={"network": network_id}):
                _disconnect(client, container["Id"], network_id)
            client.api.remove_network(network_id)
        except APIError as error:
            if not is_gone(error):
                raise


def _disconnect(client: DockerClient, container: str, network_id: str) -> None:
    try:
        client.api.disconnect_container_from_network(container, network_id)
    except APIError:
        # A container that is down or half gone: only the forced way takes its endpoint off.
        try:
            client.api.disconnect_container_from_network(container, network_id, force=True)
        except APIError as error:
            if not is_gone(error):
                raise


def remove_doubles(client: DockerClient, prefix: str) -> None:
    """Removes networks with such a name of which there are two: by name, Docker then finds neither. Used ones stay."""
    with docker_errors("looking for networks of one name"):
        names = Counter(str(network["Name"]) for network in client.api.networks(names=[prefix]))
        for network in client.api.networks(names=[prefix]):
            if network["Name"].startswith(prefix) and names[network["Name"]] > 1:
                with suppress(APIError):
                    client.api.remove_network(network["Id"])


def repair_grader(client: DockerClient, home: Home) -> list[str]:
    """Takes the grader, also one that is down, off networks that are gone; returns their names."""
    filters = {"label": [f"{LABEL_HOME}={home.label}", f"{LABEL_ZONE}={ZONE_GRADER}"]}
    repaired = []
    with docker_errors("repairing the grader's networks"):
        existing = {network["Id"] for network in client.api.networks()}
        for container in client.api.containers(all=True, filters=filters):
            for name, endpoint in container["NetworkSettings"]["Networks"].items():
                if endpoint["NetworkID"] and endpoint["NetworkID"] not in existing:
                    client.api.disconnect_container_from_network(container["Id"], name, force=True)
                    repaired.append(str(name))
    return repaired
