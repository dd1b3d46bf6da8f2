"""The proxy's parts: which addresses may be reached, how a head is read, and what stays on disk."""

from __future__ import annotations

import asyncio
import base64
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path

import pytest

from harness.domain.connections import MAX_HOSTS, OTHERS, Connection, network_event, network_use
from harness.errors import ConnectRefusal
from harness.gateway.proxy.addresses import addresses_of, is_another_host, is_public, reachable
from harness.gateway.proxy.connections import CONNECTIONS_NAME, ConnectionLog, connections_of
from harness.gateway.proxy.head import Head, asked_for, read_head


@pytest.mark.parametrize("text", ["151.101.0.223", "1.1.1.1", "2606:4700::6811:1", "2a04:4e42::223"])
def test_public_addresses_are_reached(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1",
     "100.100.100.200", "169.254.169.254", "169.254.170.2", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1",
     "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fc00::1",
     "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8",
     "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "::127.0.0.1",
     "2001:0:7f00:1::"],
)  # fmt: skip
def test_all_others_are_not(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", ["10.1.2.3", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd12::1", "1.1.1.1"])
def test_a_mirror_in_a_private_network_may_be_allowed(text: str) -> None:
    assert is_another_host(ip_address(text))


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "0.0.0.0", "169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "224.0.0.1",
     "::1", "::", "fe80::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1",
     "::127.0.0.1", "255.255.255.255"],
)  # fmt: skip
def test_this_host_and_a_clouds_services_are_no_mirror(text: str) -> None:
    assert not is_another_host(ip_address(text))


def test_a_name_that_leads_inside_is_refused() -> None:
    inside, outside = ip_address("169.254.169.254"), ip_address("1.1.1.1")
    mirror = ip_address("10.1.2.3")
    assert reachable("a.org", [inside, mirror, outside], "public") == [outside]
    assert reachable("a.org", [inside, mirror, outside], "private") == [mirror, outside]
    assert reachable("a.org", [inside], "any") == [inside]
    for found, status in (([inside], 403), ([mirror], 403), ([], 502)):
        with pytest.raises(ConnectRefusal) as refusal:
            reachable("a.org", found, "public")
        assert refusal.value.status == status


def test_a_name_of_this_machine_is_found_without_a_search_domain() -> None:
    with ThreadPoolExecutor(1) as executor:
        assert ip_address("127.0.0.1") in asyncio.run(addresses_of("localhost", executor, 10))


def read(data: bytes, max_bytes: int = 4096) -> Head | None:
    async def run() -> Head | None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(data)
            theirs.shutdown(socket.SHUT_WR)
            return await read_head(ours, max_bytes)

    return asyncio.run(run())


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_head_tells_who_asks_for_what() -> None:
    sent = f"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\nProxy-Authorization: Basic {basic('run:to:ken')}"
    head = read(sent.encode() + b"\r\n\r\n\x16\x03")
    assert head == Head("CONNECT", "pypi.org:443", "to:ken", b"\x16\x03")
    assert asked_for(head, 443) == "pypi.org"


@pytest.mark.parametrize(
    "value", ["", "Bearer x", "Basic", "Basic !", f"Basic {basic('root:x')}", "Basic /w==", f"Digest {basic('run:x')}"]
)
def test_without_the_runs_user_there_is_no_token(value: str) -> None:
    head = read(f"CONNECT a.org:443 HTTP/1.1\r\nHost: a.org\r\nProxy-Authorization: {value}\r\n\r\n".encode())
    assert head is not None
    assert head.token is None


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [("GET", "http://pypi.org/", 405), ("POST", "/", 405), ("CONNECT", "pypi.org:80", 403),
     ("CONNECT", "pypi.org:22", 403), ("CONNECT", "pypi.org", 400), ("CONNECT", "pypi.org:", 400),
     ("CONNECT", "pypi.org:99999999999999", 403), ("CONNECT", "pypi.org:+443", 400), ("CONNECT", "127.0.0.1:443", 403),
     ("CONNECT", "[::1]:443", 403), ("CONNECT", "2130706433:443", 403), ("CONNECT", "0x7f.1:443", 403),
     ("CONNECT", "run@pypi.org:443", 403), ("CONNECT", ":443", 403)],
)  # fmt: skip
def test_all_but_connect_to_a_named_host_is_refused(method: str, target: str, status: int) -> None:
    with pytest.raises(ConnectRefusal) as refusal:
        asked_for(Head(method, target, None, b""), 443)
    assert refusal.value.status == status


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x00\xff" + bytes(255), b"CONNECT\r\n\r\n", b"CONNECT a.org:443 HTTP/1.1\r\nHost\r\n\r\n",
     b"CONNECT a.org:443 HTTP/1.1\r\n" + b"x: " + b"y" * 5000],
    ids=["tls", "half", "header", "endless"],
)  # fmt: skip
def test_what_is_no_head_is_refused(data: bytes) -> None:
    with pytest.raises(ConnectRefusal) as refusal:
        read(data)
    assert refusal.value.status == 400


def test_a_client_that_leaves_is_no_request() -> None:
    assert read(b"") is None
    assert read(b"CONNECT a.org:443 HT") is None


def test_connections_stay_on_disk_with_what_a_kill_left_open(tmp_path: Path) -> None:
    log = ConnectionLog(tmp_path)
    log.take_up()
    done, lost = log.begun("a.org", 443), log.begun("b.org", 443)
    log.ended(done.model_copy(update={"bytes_down": 7}))
    log.refused("c.org", 443, "not allowed", limit=1)
    log.refused("d.org", 443, "not allowed", limit=1)
    with (tmp_path / CONNECTIONS_NAME).open("ab") as file:
        file.write(b'{"ended": {"numb')
    again = ConnectionLog(tmp_path)
    again.take_up()
    again.ended(again.begun("e.org", 443))
    rows = connections_of(tmp_path)
    assert [(row.host, row.verdict, row.reason) for row in rows] == [
        ("a.org", "allowed", ""), ("c.org", "refused", "not allowed"),
        ("b.org", "allowed", "the gateway died"), ("e.org", "allowed", "")]  # fmt: skip
    assert len({row.number for row in rows}) == 4
    assert rows[2].number == lost.number
    assert connections_of(tmp_path, 1, 2) == rows[1:3]
    assert again.has_room(4)
    assert not again.has_room(3)


def connection(number: int, host: str, verdict: str = "allowed", down: int = 0) -> Connection:
    return Connection.model_validate(
        {"number": number, "at": "2026-01-01T00:00:00Z", "host": host, "port": 443, "verdict": verdict,
         "bytes_up": 1, "bytes_down": down})  # fmt: skip


def test_the_sums_of_a_run_are_bounded_however_many_names_it_tried() -> None:
    rows = [connection(0, "pypi.org", down=10), connection(1, "pypi.org", "failed"), connection(2, "x.org", "refused")]
    rows += [connection(n, f"{n}.org", "refused") for n in range(3, 3 + MAX_HOSTS)]
    use = network_use(rows)
    assert len(use.hosts) == MAX_HOSTS + 1
    assert (use.hosts[0].host, use.hosts[0].allowed, use.hosts[0].failed, use.hosts[0].bytes_down) == (
        "pypi.org", 1, 1, 10)  # fmt: skip
    assert (use.hosts[-1].host, use.hosts[-1].refused) == (OTHERS, 2)
    assert network_event(rows).kind == "network"
