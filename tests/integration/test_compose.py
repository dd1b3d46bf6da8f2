"""The grader service under Compose: up, found, up again, down; on real Docker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from built_images import ROOT, built_image
from docker import DockerClient
from docker.errors import APIError

from harness.home import Home
from harness.sandbox.compose import (
    GraderSpec,
    compose_down,
    compose_up,
    grader_container,
    grader_user,
    project_name,
)
from harness.sandbox.engine import connect
from harness.unix_socket import reachable

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def client() -> Iterator[DockerClient]:
    client = connect()
    yield client
    client.close()


def empty_home(folder: Path) -> Home:
    home = Home(folder / "home")
    home.create()
    return home


def spec_of(home: Home) -> GraderSpec:
    return GraderSpec(home_path=home.path, image=built_image("grader"), user=grader_user())


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return empty_home(tmp_path_factory.mktemp("compose"))


@pytest.fixture(scope="module")
def spec(shared_home: Home) -> GraderSpec:
    return spec_of(shared_home)


@pytest.fixture(scope="module")
def up(client: DockerClient, shared_home: Home, spec: GraderSpec) -> Iterator[str]:
    """The id of a grader container that runs for a home of this module's own."""
    try:
        yield compose_up(client, ROOT, spec).container_id
    finally:
        compose_down(client, ROOT, shared_home)


def health(socket: Path) -> int:
    with reachable(socket) as address, httpx.Client(transport=httpx.HTTPTransport(uds=address)) as http:
        return http.get("http://grader/health", timeout=10).status_code


def test_up_again_leaves_a_running_grader_alone(client: DockerClient, spec: GraderSpec, up: str) -> None:
    assert compose_up(client, ROOT, spec).container_id == up


def test_grader_answers_on_its_admin_socket(shared_home: Home, up: str) -> None:
    deadline = time.monotonic() + 60
    while not shared_home.admin_socket.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert health(shared_home.admin_socket) == 200


def test_the_hardening_reached_the_container(client: DockerClient, up: str) -> None:
    container: dict[str, Any] = client.api.inspect_container(up)
    host = container["HostConfig"]
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Sysctls"] == {"net.ipv4.ip_forward": "0"}
    assert host["LogConfig"]["Type"] == "local"
    assert host["PidsLimit"] > 0
    assert host["Memory"] > 0
    writable = {Path(mount["Destination"]).name for mount in container["Mounts"] if mount["RW"]}
    assert writable == {"db", "snapshots", "sock"}


def test_core_network_has_no_address_of_the_host(client: DockerClient, up: str) -> None:
    (name,) = client.api.inspect_container(up)["NetworkSettings"]["Networks"]
    network = client.api.inspect_network(name)
    assert network["Internal"] is True
    assert network["Options"]["com.docker.network.bridge.inhibit_ipv4"] == "true"


def test_down_removes_container_and_network(client: DockerClient, home: Home) -> None:
    container = compose_up(client, ROOT, spec_of(home)).container_id
    network = next(iter(client.api.inspect_container(container)["NetworkSettings"]["Networks"]))
    assert compose_down(client, ROOT, home)
    assert grader_container(client, home) is None
    assert network not in {found["Name"] for found in client.api.networks()}
    assert not compose_down(client, ROOT, home)


def test_of_those_that_begin_at_once_one_starts_it_for_all(client: DockerClient, home: Home) -> None:
    with ThreadPoolExecutor(3) as pool:
        try:
            found = {up.container_id for up in pool.map(lambda _: compose_up(client, ROOT, spec_of(home)), range(3))}
            assert len(found) == 1
        finally:
            compose_down(client, ROOT, home)
    assert not [one["Name"] for one in client.api.networks() if one["Name"].startswith(project_name(home))]


def test_two_networks_of_one_name_are_put_right(client: DockerClient, home: Home) -> None:
    name = f"{project_name(home)}_core"
    try:
        for _ in range(2):
            client.api.create_network(name, check_duplicate=False)
    except APIError:
        client.api.remove_network(name)
        pytest.skip("this Docker refuses a second network of one name")
    try:
        assert compose_up(client, ROOT, spec_of(home)).is_running
    finally:
        compose_down(client, ROOT, home)
        for network in client.api.networks(names=[name]):
            client.api.remove_network(network["Id"])
