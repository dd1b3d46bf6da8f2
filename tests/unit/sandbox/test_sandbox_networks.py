"""Which subnets are handed out."""

from ipaddress import IPv4Network
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import PrerequisiteError
from harness.sandbox.networks import RunNetwork, free_subnets, used_subnets

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
tun0\t0000D50A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def nets(*texts):
    return [IPv4Network(text) for text in texts]


def test_the_first_free_subnet_comes_first():
    found = list(islice(free_subnets("10.213.0.0/16", nets("10.213.0.0/28", "172.17.0.0/16")), 2))
    assert found == nets("10.213.0.16/28", "10.213.0.32/28")


def test_a_larger_network_in_use_hides_all_of_its_subnets():
    assert next(free_subnets("10.213.0.0/16", nets("10.213.0.0/24"))) == IPv4Network("10.213.1.0/28")


def test_the_search_goes_round_to_the_start():
    found = list(free_subnets("10.213.0.0/26", nets("10.213.0.16/28"), offset=3))
    assert found == nets("10.213.0.48/28", "10.213.0.0/28", "10.213.0.32/28")


def test_a_used_up_range_gives_none():
    assert list(free_subnets("10.213.0.0/27", nets("10.213.0.0/16"))) == []


@pytest.mark.parametrize("text", ["10.213.0.0/30", "10.213.0.1/16", "fd00::/64", "nonsense"])
def test_an_unfit_range_names_the_setting(text):
    with pytest.raises(PrerequisiteError, match="HARNESS_NETWORK_RANGE"):
        list(free_subnets(text, []))


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(24, 30)), max_size=12), st.integers(0, 1 << 16))
def test_nothing_that_is_handed_out_overlaps_what_is_used(pairs, offset):
    used = [IPv4Network((int(IPv4Network("10.213.0.0/16")[0]) + number * 256, prefix)) for number, prefix in pairs]
    for subnet in islice(free_subnets("10.213.0.0/16", used, offset), 20):
        assert not any(subnet.overlaps(network) for network in used)


def test_what_docker_and_routes_occupy_is_used():
    networks = [
        {"IPAM": {"Config": [{"Subnet": "172.17.0.0/16"}, {"Subnet": "fd00:1::/64"}]}},
        {"IPAM": {"Config": None}},
        {"IPAM": None},
    ]
    assert used_subnets(networks, ROUTES) == nets("172.17.0.0/16", "10.213.0.0/24")


def test_addresses_in_a_run_network_are_fixed():
    network = RunNetwork(id="x", name="harness-r", subnet="10.213.4.32/28")
    assert (network.gateway, network.grader, network.agent) == ("10.213.4.33", "10.213.4.34", "10.213.4.35")
