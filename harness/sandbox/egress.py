"""The egress network of a home: the way out, on which its gateways are and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from docker import DockerClient

from harness.home import Home
from harness.sandbox.engine import LABEL_HOME, LABEL_ZONE, docker_errors, labels
from harness.sandbox.home_lock import alone
from harness.sandbox.networks import remove_network

ZONE_EGRESS = "egress"


def egress_name(home: Home) -> str:
    return f"harness-{home.label}-egress"


@contextmanager
def egress_network(client: DockerClient, home: Home) -> Iterator[str]:
    """Id of the home's egress network, made if it is not there; while the block runs nobody removes it.

    Raises:
        InfrastructureError: Docker failed, or has no free network range left.
    """
    with alone(home):
        yield _find(client, home) or _create(client, home)


def remove_egress(client: DockerClient, home: Home) -> bool:
    """Removes it where no container is on it, also none that is down; whether it did."""
    network = _find(client, home)
    if network is None or not home.path.is_dir():
        return False
    with alone(home):
        with docker_errors(f"looking who is on {egress_name(home)}"):
            if client.api.containers(all=True, filters={"network": network}):
                return False
        remove_network(client, network)
        return True


def _find(client: DockerClient, home: Home) -> str | None:
    filters = {"label": [f"{LABEL_HOME}={home.label}", f"{LABEL_ZONE}={ZONE_EGRESS}"]}
    with docker_errors("looking for the egress network"):
        found = client.api.networks(filters=filters)
    return str(found[0]["Id"]) if found else None


def _create(client: DockerClient, home: Home) -> str:
    with docker_errors(f"creating network {egress_name(home)}"):
        reply = client.api.create_network(
            egress_name(home),
            driver="bridge",
            # The gateways of two runs have nothing to say to each other.
            options={"com.docker.network.bridge.enable_icc": "false"},
            labels=labels(home.label, None, ZONE_EGRESS),
        )
    return str(reply["Id"])
