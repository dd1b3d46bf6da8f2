"""The gateway's container of one run: between the run's network and the way out; it alone gets the provider's key."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docker import DockerClient
from docker.types import Mount
from pydantic import SecretStr

from harness.domain.base import Frozen
from harness.domain.llm import Provider
from harness.domain.runs import Owner
from harness.errors import PrerequisiteError
from harness.home import SOCKET_DIR_MODE, Home
from harness.sandbox.certificates import host_authorities
from harness.sandbox.containers import ZONE_GATEWAY, find_container, remove_container
from harness.sandbox.egress import egress_network
from harness.sandbox.engine import docker_errors, labels
from harness.sandbox.hardening import Isolation, Resources, bind, confined, host_config, service_user, temporary
from harness.sandbox.networks import GATEWAY_ALIAS, GATEWAY_PORT, RunNetwork
from harness.sandbox.services import SOCKET_NAME, answers, await_socket, prepare_socket_dir
from harness.sandbox.watch import is_running

CONFIG_FOLDER, STATE_FOLDER = "/etc/gateway", "/var/lib/gateway"
CONFIG_NAME, KEY_NAME, PRICES_NAME = "gateway.yaml", "key", "prices.yaml"
HOST_NAME = "host.docker.internal"
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
# At worst: requests 48 MiB, what the one that is read becomes 300, answers that are not streamed 96 and the same for
# the one that is read, and 4 MiB of each of 64 calls that are kept. An agent must not be able to end it.
RESOURCES = Resources(memory_mb=1024, pids=128)
# Engines give containers the host's own settings: with them an agent's container could be a client of a router.
SYSCTLS = {
    "net.ipv4.ip_forward": "0",
    "net.ipv4.conf.all.accept_source_route": "0",
    "net.ipv4.conf.all.accept_redirects": "0",
}
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o400


class UpstreamSpec(Frozen):
    """A provider as the gateway is to reach it; an empty key is none."""

    provider: Provider
    url: str
    key: SecretStr = SecretStr("")


class GatewaySpec(Frozen):
    """Everything that decides a run's gateway. `upstream` is none where a run has its proxy alone.

    `has_private_hosts`: hosts that the run is allowed may lead to private addresses.
    """

    run_id: str
    owner: Owner
    image: str
    upstream: UpstreamSpec | None = None
    prices: Path | None = None
    has_private_hosts: bool = False


def url_from_container(url: str) -> str:
    """`url` as a container reaches it: what is this host's loopback to the user is nobody's there."""
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK:
        return url
    port = f":{parts.port}" if parts.port else ""
    return parts._replace(netloc=f"{HOST_NAME}{port}").geturl()


def is_on_host(url: str) -> bool:
    """Whether `url` means a server on this host."""
    return urlsplit(url).hostname in (*_LOOPBACK, HOST_NAME)


def gateway_config(spec: GatewaySpec) -> dict[str, Any]:
    """The gateway's configuration file (harness/gateway/config.py), with names as its container sees them."""
    config: dict[str, Any] = {"upstreams": {}}
    if spec.has_private_hosts:
        config["proxy"] = {"addresses": "private"}
    if spec.upstream is not None:
        known = {"url": url_from_container(spec.upstream.url)}
        if spec.upstream.key.get_secret_value():
            known["key_file"] = f"{CONFIG_FOLDER}/{KEY_NAME}"
        config["upstreams"][spec.upstream.provider] = known
    if spec.prices is not None:
        config["prices"] = PRICES_NAME
    return config


def stage_config(home: Home, spec: GatewaySpec) -> Path:
    """The folder with configuration, key and prices, which the gateway's user alone can read; replaces what is there.

    Raises:
        PrerequisiteError: the price table cannot be read.
    """
    folder = home.gateway_config_dir(spec.run_id)
    if folder.is_symlink() or folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, mode=_PRIVATE_FOLDER)
    folder.parent.chmod(SOCKET_DIR_MODE)
    files = {CONFIG_NAME: json.dumps(gateway_config(spec))}
    if spec.upstream is not None and spec.upstream.key.get_secret_value():
        files[KEY_NAME] = spec.upstream.key.get_secret_value()
    if spec.prices is not None:
        files[PRICES_NAME] = _prices(spec.prices)
    for name, content in files.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE_FILE)
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
    _give(folder, *(folder / name for name in files))
    return folder


def remove_config(home: Home, run_id: str) -> None:
    """Removes that folder, and the run's folder of sockets where nothing else is in it."""
    folder = home.gateway_config_dir(run_id)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _prices(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PrerequisiteError(
            f"the price table {path} cannot be read: {type(error).__name__}", "Set HARNESS_LLM_PRICES right."
        ) from error


def find_gateway(client: DockerClient, home: Home, run_id: str) -> str | None:
    """The container of the run's gateway if it answers; one that does not is removed."""
    container = find_container(client, home, run_id, ZONE_GATEWAY)
    if container is None:
        return None
    if is_running(client, container) and answers(home.gateway_dir(run_id) / SOCKET_NAME):
        return container
    remove_container(client, container)
    return None


def start_gateway(client: DockerClient, home: Home, spec: GatewaySpec, network: RunNetwork, timeout_s: float) -> str:
    """Starts the run's gateway; returns its container when it answers. If it fails, none is left.

    Raises:
        ServiceUnavailable: it ended or did not answer in time; its last words are in the message.
        PrerequisiteError: its image is missing.
    """
    deadline = time.monotonic() + timeout_s
    uid, gid = service_user()
    config = stage_config(home, spec)
    prepare_socket_dir(home.gateway_dir(spec.run_id), uid, gid)
    state = home.run(spec.run_id).llm
    state.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    _give(state)
    container: str | None = None
    try:
        # Under one lock: a network that nobody is on yet could be removed between the steps.
        with egress_network(client, home) as outside, docker_errors(f"creating the gateway of {spec.run_id}"):
            options = _container_config(client, home, spec, network, config)
            container = str(client.api.create_container(spec.image, **options)["Id"])
            client.api.connect_container_to_network(container, outside)
        with docker_errors(f"starting the gateway of {spec.run_id}"):
            client.api.start(container)
        socket = home.gateway_dir(spec.run_id) / SOCKET_NAME
        await_socket(client, container, socket, f"gateway of {spec.run_id}", deadline)
    except BaseException:
        if container is not None:
            remove_container(client, container)
        raise
    return container


def _container_config(
    client: DockerClient, home: Home, spec: GatewaySpec, network: RunNetwork, config: Path
) -> dict[str, Any]:
    uid, gid = service_user()
    authorities, environment = host_authorities()
    mounts: list[Mount] = [
        bind(config, CONFIG_FOLDER, read_only=True),
        bind(home.gateway_dir(spec.run_id), "/sock", read_only=False),
        bind(home.run(spec.run_id).llm, STATE_FOLDER, read_only=False),
        *authorities,
    ]
    endpoint = client.api.create_endpoint_config(ipv4_address=network.llm_gateway, aliases=[GATEWAY_ALIAS])
    return {
        **container_basics(environment),
        "command": _command(network),
        "name": f"harness-{spec.run_id}-{ZONE_GATEWAY}",
        "hostname": ZONE_GATEWAY,
        "user": f"{uid}:{gid}",
        "labels": labels(home.label, spec.run_id, ZONE_GATEWAY, spec.owner),
        "host_config": outward_host_config(
            client, network.name, mounts, restart_policy={"Name": "on-failure"}, sysctls=SYSCTLS
        ),
        "networking_config": {"EndpointsConfig": {network.name: endpoint}},
    }


def container_basics(environment: Mapping[str, str]) -> dict[str, Any]:
    """What every container with the provider's key has."""
    return {
        "entrypoint": list(confined()),
        "environment": {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        "healthcheck": {"test": ["NONE"]},
    }


def outward_host_config(client: DockerClient, network: str, mounts: list[Mount], **more: Any) -> dict[str, Any]:
    """The hardened host configuration of a container that may reach providers, also those on this host."""
    isolation = Isolation(network=network)
    hosts = {HOST_NAME: "host-gateway"}
    return host_config(client, RESOURCES, isolation, mounts, tmpfs=temporary(64), extra_hosts=hosts, **more)


def _command(network: RunNetwork) -> list[str]:
    """Agents are answered on the run's network alone: nobody on the way out finds anything to talk to."""
    files = ["--config", f"{CONFIG_FOLDER}/{CONFIG_NAME}", "--state", STATE_FOLDER, "--admin", f"/sock/{SOCKET_NAME}"]
    return ["python", "-m", "harness.gateway", *files, "--host", network.llm_gateway, "--port", str(GATEWAY_PORT)]


def _give(*paths: Path) -> None:
    """Makes the paths those of the gateway's user, where the harness can choose one."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, *service_user())
