"""What the forward proxy costs: TLS through it and direct, side by side, against a server on loopback.

python tests/bench/proxy.py [--json] [--megabytes 500] [--connections 100]
"""

from __future__ import annotations

import argparse
import base64
import socket
import ssl
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from gateway_process import TOKEN, GatewayProcess  # noqa: E402
from machine import machine, report, summary  # noqa: E402
from tls_server import TlsServer, tls_server  # noqa: E402

ROUNDS = 3
PARALLEL = 16


def connected(server: TlsServer, proxy_port: int | None) -> ssl.SSLSocket:
    """A TLS connection to the server, direct or through the proxy."""
    client = socket.create_connection(("127.0.0.1", proxy_port or server.port), timeout=120)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy_port is not None:
        word = base64.b64encode(f"run:{TOKEN}".encode()).decode()
        head = (
            f"CONNECT localhost:{server.port} HTTP/1.1\r\nHost: localhost\r\nProxy-Authorization: Basic {word}\r\n\r\n"
        )
        client.sendall(head.encode())
        answer = client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
    return server.client_context().wrap_socket(client, server_hostname="localhost")


def megabytes_per_s(server: TlsServer, proxy_port: int | None, size: int) -> float:
    """How fast one connection downloads `size` bytes."""
    with connected(server, proxy_port) as tls:
        start, got, buffer = time.perf_counter(), 0, bytearray(2**18)
        tls.sendall(f"SEND {size}\n".encode())
        while got < size:
            got += tls.recv_into(buffer)
        return size / 1e6 / (time.perf_counter() - start)


def first_byte_ms(server: TlsServer, proxy_port: int | None) -> float:
    """From nothing to the first byte of an answer."""
    start = time.perf_counter()
    with connected(server, proxy_port) as tls:
        tls.sendall(b"x")
        tls.recv(1)
    return (time.perf_counter() - start) * 1000


def parallel_megabytes_per_s(server: TlsServer, proxy_port: int | None, size: int) -> float:
    """The same of several connections at a time, all together."""
    start = time.perf_counter()
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(lambda _: megabytes_per_s(server, proxy_port, size // PARALLEL), range(PARALLEL)))
    return size / 1e6 / (time.perf_counter() - start)


def measured(server: TlsServer, proxy_port: int, size: int, number: int) -> dict[str, Any]:
    """All figures; the two take turns, so that what else the machine does falls on both."""
    places: dict[str, int | None] = {"proxy": proxy_port, "direct": None}
    found: dict[str, dict[str, list[float]]] = {kind: {"proxy": [], "direct": []} for kind in ("one", "many", "ms")}
    for _ in range(ROUNDS):
        for name, port in places.items():
            found["one"][name].append(megabytes_per_s(server, port, size))
            found["many"][name].append(parallel_megabytes_per_s(server, port, size))
    for _ in range(number):
        for name, port in places.items():
            found["ms"][name].append(first_byte_ms(server, port))
    return {kind: {name: summary(values) for name, values in both.items()} for kind, both in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--connections", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tls_server(Path(folder)) as server:
        gateway = GatewayProcess(Path(folder) / "g", None, {"port": server.port, "addresses": "any"})
        gateway.start()
        try:
            gateway.open_run(allowed_hosts=("localhost",))
            found = measured(server, gateway.proxy_port, options.megabytes * 10**6, options.connections)
        finally:
            gateway.end()
    lines = []
    for kind, what in (("one", "one connection"), ("many", f"{PARALLEL} connections together")):
        through, direct = found[kind]["proxy"]["p50"], found[kind]["direct"]["p50"]
        lines.append(
            f"{what}: {through:.0f} MB/s through it, {direct:.0f} MB/s direct, {through / direct:.0%} (medians)"
        )
    through, direct = found["ms"]["proxy"]["p50"], found["ms"]["direct"]["p50"]
    lines.append(f"connect to first byte: {through:.2f} ms through it, {direct:.2f} ms direct (medians)")
    report({"machine": machine(), **found}, lines, as_json=options.json)


if __name__ == "__main__":
    main()
