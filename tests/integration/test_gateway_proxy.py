"""The forward proxy of a real gateway process, between real TLS clients and a real TLS server, all on loopback."""

from __future__ import annotations

import base64
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_process import TOKEN, GatewayProcess
from served import wait_until
from tls_server import TlsServer, tls_server

from harness.domain.connections import Connection

HOSTS = ("localhost", "*.allowed.example", "nowhere.invalid")
LIMITS = {"head_s": 2, "idle_s": 2, "closing_s": 1, "connections": 8, "connect_s": 5}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with tls_server(tmp_path_factory.mktemp("tls")) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(server: TlsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    proxy = {"port": server.port, "addresses": "any", **LIMITS}
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), None, proxy)
    process.start()
    yield process
    assert process.end() == 0
    log = process.log.read_text()
    assert "Traceback" not in log
    assert "ERROR" not in log
    assert TOKEN.encode() not in process.kept_bytes()


@pytest.fixture
def run(gateway: GatewayProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    """An open run of this test's own, with a token named after it."""
    run_id = f"r-{abs(hash(request.node.nodeid))}"
    assert gateway.open_run(run_id, TOKEN + run_id, allowed_hosts=HOSTS).status == 200
    yield run_id
    gateway.close_run(run_id)


def ask(gateway: GatewayProcess, target: str, token: str | None, method: str = "CONNECT") -> tuple[socket.socket, str]:
    """A connection to the proxy after one request, and the head of its answer."""
    client = socket.create_connection(("127.0.0.1", gateway.proxy_port), timeout=20)
    head = f"{method} {target} HTTP/1.1\r\nHost: {target}\r\n"
    if token is not None:
        head += f"Proxy-Authorization: Basic {base64.b64encode(f'run:{token}'.encode()).decode()}\r\n"
    client.sendall(f"{head}\r\n".encode())
    return client, client.recv(65536).decode()


def refused(gateway: GatewayProcess, target: str, token: str | None, method: str = "CONNECT") -> str:
    client, answer = ask(gateway, target, token, method)
    with client:
        while data := client.recv(65536):
            answer += data.decode()
    return answer


def tunnel(gateway: GatewayProcess, server: TlsServer, run: str, name: str = "localhost") -> socket.socket:
    client, answer = ask(gateway, f"{name}:{server.port}", TOKEN + run)
    assert answer.startswith("HTTP/1.1 200 "), answer
    return client


@contextmanager
def tls_through(gateway: GatewayProcess, server: TlsServer, run: str) -> Iterator[ssl.SSLSocket]:
    """A TLS connection to the server, through the proxy."""
    client = tunnel(gateway, server, run)
    with client, server.client_context().wrap_socket(client, server_hostname="localhost") as tls:
        yield tls


def row(gateway: GatewayProcess, run: str) -> Connection:
    wait_until(lambda: bool(gateway.connections(run)), 10)
    (row,) = gateway.connections(run)
    return row


def test_tls_passes_end_to_end_and_its_bytes_are_counted(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    with tls_through(gateway, server, run) as tls:
        tls.sendall(b"SEND 3000000\n")
        got = 0
        while got < 3_000_000:
            got += len(tls.recv(65536))
        assert gateway.connections(run) == []
    found = row(gateway, run)
    assert (found.host, found.port, found.verdict, found.reason) == ("localhost", server.port, "allowed", "")
    assert 3_000_000 < found.bytes_down < 3_100_000
    assert 200 < found.bytes_up < 5000
    assert 0 < found.seconds < 60


def test_a_common_client_takes_the_proxy_from_its_url(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    url = f"http://run:{TOKEN}{run}@127.0.0.1:{gateway.proxy_port}"
    with httpx.Client(proxy=url, verify=server.client_context()) as client:
        assert client.get(f"https://localhost:{server.port}/").text == "ok"
    assert row(gateway, run).bytes_up > 0
    with httpx.Client(proxy=url.replace(TOKEN, "other")) as client, pytest.raises(httpx.ProxyError, match="407"):
        client.get(f"https://localhost:{server.port}/")


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("other.example:{port}", 403, "other.example is not allowed in this run. Allowed: localhost,"),
        ("allowed.example:{port}", 403, "is not allowed"),
        ("localhost:80", 403, "only port {port}"),
        ("127.0.0.1:{port}", 403, "IP address"),
        ("[::1]:{port}", 403, "only named hosts"),
        ("2130706433:{port}", 403, "IP address"),
        ("localhost", 400, "host:port"),
        ("nowhere.invalid:{port}", 502, "has no address"),
    ],
)
def test_what_is_not_allowed_is_told_and_written_down(
    gateway: GatewayProcess, server: TlsServer, run: str, target: str, status: int, words: str
) -> None:
    answer = refused(gateway, target.format(port=server.port), TOKEN + run)
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert words.format(port=server.port) in body
    assert row(gateway, run).verdict == ("failed" if status == 502 else "refused")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_plain_http_does_not_pass(gateway: GatewayProcess, run: str, method: str) -> None:
    answer = refused(gateway, "http://localhost/", TOKEN + run, method)
    assert answer.startswith("HTTP/1.1 405 only CONNECT")
    assert row(gateway, run).reason.startswith("only CONNECT")


def test_a_token_is_needed_and_its_own_network(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    target = f"localhost:{server.port}"
    for token in (None, "", "wrong", TOKEN):
        answer = refused(gateway, target, token)
        assert answer.startswith("HTTP/1.1 407 ")
        assert "Proxy-Authenticate: Basic" in answer
    gateway.open_run(f"{run}-far", f"{TOKEN}{run}-far", subnets=("10.9.8.0/28",), allowed_hosts=HOSTS)
    assert refused(gateway, target, f"{TOKEN}{run}-far").startswith("HTTP/1.1 407 ")
    gateway.close_run(f"{run}-far")
    assert refused(gateway, target, f"{TOKEN}{run}-far").startswith("HTTP/1.1 407 ")


def test_a_run_without_hosts_reaches_none(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    gateway.open_run(f"{run}-none", f"{TOKEN}{run}-none")
    assert "Allowed: none." in refused(gateway, f"localhost:{server.port}", f"{TOKEN}{run}-none")
    gateway.close_run(f"{run}-none")


@pytest.mark.parametrize("name", ["pypi.org", "x.allowed.example", None])
def test_another_server_inside_of_the_tunnel_is_refused(
    gateway: GatewayProcess, server: TlsServer, run: str, name: str | None
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with tunnel(gateway, server, run) as client, pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        context.wrap_socket(client, server_hostname=name)
    found = row(gateway, run)
    assert found.verdict == "refused"
    assert (name or "names no server") in found.reason
    assert (found.bytes_up, found.bytes_down) == (0, 0)


@pytest.mark.parametrize("first", [b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x00"])
def test_what_is_no_tls_never_reaches_the_host(
    gateway: GatewayProcess, server: TlsServer, run: str, first: bytes
) -> None:
    with tunnel(gateway, server, run) as client:
        client.sendall(first)
        assert client.recv(100)[:1] == b"\x15"
        assert client.recv(100) == b""
    found = row(gateway, run)
    assert (found.verdict, found.bytes_up) == ("refused", 0)


def test_a_silent_tunnel_is_ended(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    with tls_through(gateway, server, run) as tls:
        assert tls.recv(1) == b""
    assert row(gateway, run).reason == "silent"
    wait_until(lambda: not server.open_connections, 10)


def test_an_agent_that_reads_nothing_is_ended(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    with tls_through(gateway, server, run) as tls:
        tls.sendall(b"SEND 100000000\n")
        assert row(gateway, run).reason == "silent"
    wait_until(lambda: not server.open_connections, 10)


def test_closing_a_run_cuts_its_tunnels(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    with tls_through(gateway, server, run) as tls:
        tls.sendall(b"hello")
        assert tls.recv(100) == b"hello"
        gateway.close_run(run)
        with suppress(ConnectionError):
            assert tls.recv(100) == b""
    found = row(gateway, run)
    assert found.reason == "cut off"
    assert found.bytes_down > 0


def test_a_run_has_so_many_connections_at_a_time(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    clients = [tunnel(gateway, server, run) for _ in range(LIMITS["connections"])]
    assert refused(gateway, f"localhost:{server.port}", TOKEN + run).startswith("HTTP/1.1 429 ")
    clients[0].close()
    wait_until(lambda: any(one.verdict == "allowed" or "ClientHello" in one.reason for one in gateway.connections(run)))
    tunnel(gateway, server, run).close()
    for client in clients:
        client.close()


def test_connections_that_ask_nothing_do_not_pile_up(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    idle = [socket.create_connection(("127.0.0.1", gateway.proxy_port), timeout=20) for _ in range(40)]
    # What is over the limit of an address is closed at once, the rest with the time that a head may take.
    started = time.monotonic()
    for client in idle:
        client.sendall(b"CONNECT") if client.fileno() % 2 else None
    for client in idle:
        with suppress(ConnectionError):
            assert client.recv(100) == b""
        client.close()
    assert time.monotonic() - started < LIMITS["head_s"] + 5
    tunnel(gateway, server, run).close()


def test_garbage_is_answered_and_others_are_served(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    for data in (b"\x16\x03\x01" + bytes(300), b"\r\n\r\n\r\n", b"CONNECT " + b"a" * 60_000, b"PRI * HTTP/2.0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", gateway.proxy_port), timeout=20) as client:
            client.sendall(data)
            client.settimeout(10)
            with suppress(ConnectionError):
                assert client.recv(100)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 407")
    tunnel(gateway, server, run).close()


def test_several_at_a_time_take_turns(gateway: GatewayProcess, server: TlsServer, run: str) -> None:
    def fetch(_number: int) -> int:
        got = 0
        with tls_through(gateway, server, run) as tls:
            tls.sendall(b"SEND 5000000\n")
            while got < 5_000_000:
                got += len(tls.recv(65536))
        return got

    with ThreadPoolExecutor(LIMITS["connections"] // 2) as pool:
        assert list(pool.map(fetch, range(16))) == [5_000_000] * 16
    wait_until(lambda: len(gateway.connections(run)) == 16, 10)
    assert sum(one.bytes_down for one in gateway.connections(run)) > 16 * 5_000_000
    assert len(gateway.connections(run, skip=10)) == 6


def made(folder: Path, server: TlsServer, **proxy: Any) -> GatewayProcess:
    process = GatewayProcess(folder / "g", None, {"port": server.port, **proxy})
    process.start()
    process.open_run(allowed_hosts=HOSTS)
    return process


def test_a_name_that_leads_to_this_host_is_refused(server: TlsServer, tmp_path: Path) -> None:
    process = made(tmp_path, server)
    try:
        answer = refused(process, f"localhost:{server.port}", TOKEN)
        assert answer.startswith("HTTP/1.1 403 localhost does not lead to a public address")
        assert row(process, "r1").verdict == "refused"
        assert not server.open_connections
    finally:
        process.end()


def test_lines_are_bounded_and_a_kill_loses_none(server: TlsServer, tmp_path: Path) -> None:
    process = made(tmp_path, server, addresses="any", rows=1, refusals=2)
    try:
        client = tunnel(process, server, "")
        for _ in range(3):
            assert refused(process, f"localhost:{server.port}", TOKEN).startswith("HTTP/1.1 429 ")
        assert len(process.connections()) == 2
        process.end(signal.SIGKILL)
        client.close()
        process.start()
        assert [(one.verdict, one.reason) for one in process.connections()][2:] == [("allowed", "the gateway died")]
        assert refused(process, f"localhost:{server.port}", TOKEN).startswith("HTTP/1.1 429 ")
    finally:
        process.end()
