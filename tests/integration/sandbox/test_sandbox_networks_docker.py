"""Run networks on a real engine."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.errors import InfrastructureError, PrerequisiteError
from harness.sandbox import watch
from harness.sandbox.networks import (
    attach_grader,
    create_run_network,
    find_run_network,
    network_name,
    remove_network,
    repair_grader,
)

pytestmark = pytest.mark.docker
RANGE = "10.214.16.0/24"


@pytest.fixture
def network(client, home):
    network = create_run_network(client, home, "run-n", RANGE)
    yield network
    remove_network(client, network.id)


def test_a_network_is_internal_and_leaves_the_host_without_an_address(client, home, network):
    found = client.api.inspect_network(network.id)
    assert found["Internal"] is True
    assert found["EnableIPv6"] is False
    assert found["Options"]["com.docker.network.bridge.inhibit_ipv4"] == "true"
    assert found["Labels"]["harness.run"] == "run-n"
    assert find_run_network(client, home, "run-n") == network


def test_processes_that_start_together_get_different_subnets(client, home):
    with ThreadPoolExecutor(max_workers=8) as pool:
        made = list(pool.map(lambda n: create_run_network(client, home, f"run-{n}", RANGE), range(8)))
    try:
        assert len({network.subnet for network in made}) == 8
    finally:
        for network in made:
            remove_network(client, network.id)


def test_a_full_range_says_what_to_do(client, home):
    only = create_run_network(client, home, "run-only", "10.214.17.0/28")
    try:
        with pytest.raises(PrerequisiteError, match="harness clean"):
            create_run_network(client, home, "run-more", "10.214.17.0/28")
    finally:
        remove_network(client, only.id)


def test_without_a_grader_attaching_says_how_to_start_it(client, home, network):
    with pytest.raises(InfrastructureError, match="harness up"):
        attach_grader(client, home, network)


def test_the_agent_reaches_the_grader_by_name_and_at_its_address(client, home, grader, launch):
    ask = r"curl -s -o /dev/null -w '%{http_code} %{remote_ip}\n' $GRADING_SERVER_URL/health"
    run = launch(f"for i in 1 2 3 4 5 6 7 8; do {ask} && break; sleep 1; done")
    attach_grader(client, home, run.spec.network)
    attach_grader(client, home, run.spec.network)
    watch.wait_exit(client, run.container, 40)
    assert f"200 {run.spec.network.grader}" in client.api.logs(run.container).decode()


def test_a_network_goes_with_its_members_and_the_grader_can_start_again(client, home, grader):
    network = create_run_network(client, home, "run-g", RANGE)
    attach_grader(client, home, network)
    client.api.kill(grader)
    client.api.wait(grader)
    remove_network(client, network.id)
    remove_network(client, network.id)
    client.api.start(grader)
    assert client.api.inspect_container(grader)["State"]["Running"]


def test_a_network_removed_under_a_dead_grader_is_repaired(client, home, grader):
    network = create_run_network(client, home, "run-g", RANGE)
    attach_grader(client, home, network)
    client.api.kill(grader)
    client.api.wait(grader)
    client.api.remove_network(network.id)
    assert repair_grader(client, home) == [network_name("run-g")]
    client.api.start(grader)
    assert client.api.inspect_container(grader)["State"]["Running"]
