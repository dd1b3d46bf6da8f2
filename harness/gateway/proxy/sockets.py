"""Plain sockets of the proxy: connected to a host, told how to behave, and ended so that a last word arrives."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from harness.errors import ConnectRefusal
from harness.gateway.proxy.addresses import Address

MAX_TRIES = 4
# A peer that is gone without a word is noticed after about two minutes.
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
# To read on after an answer, so that what the client still sends does not destroy it on its way.
LINGER_S, LINGER_BYTES = 2.0, 256 * 2**10
READ_BYTES = 16 * 2**10
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def tuned(one: socket.socket) -> None:
    """Without delays of small packets, and with a look now and then whether the peer is there."""
    one.setblocking(False)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE:
        one.setsockopt(socket.IPPROTO_TCP, option, value)


async def connected(name: str, places: list[Address], port: int, timeout_s: float) -> socket.socket:
    """A connection to the first of the addresses that answers; all of them together have `timeout_s`.

    Raises:
        ConnectRefusal: none does.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for place in places[:MAX_TRIES]:
                with suppress(OSError):
                    return await _connected(place, port)
    raise ConnectRefusal(502, f"{name} does not answer on port {port}")


async def _connected(place: Address, port: int) -> socket.socket:
    host = socket.socket(socket.AF_INET if place.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        tuned(host)
        await asyncio.get_running_loop().sock_connect(host, (str(place), port))
    except BaseException:
        host.close()
        raise
    return host


async def refuse(client: socket.socket, refusal: ConnectRefusal) -> None:
    """Tells the client why not: in the status line too, of which most clients show nothing else."""
    body = f"{refusal}\n".encode()
    lines = [
        f"HTTP/1.1 {refusal.status} {refusal.what}",
        *(['Proxy-Authenticate: Basic realm="run"'] if refusal.status == 407 else []),
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    await last_word(client, "\r\n".join([*lines, "", ""]).encode() + body)


async def last_word(client: socket.socket, data: bytes) -> None:
    """Sends `data` and ends: reads on for a while, as a connection that is closed with unread bytes is reset."""
    loop = asyncio.get_running_loop()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await loop.sock_sendall(client, data)
            client.shutdown(socket.SHUT_WR)
            left = LINGER_BYTES
            while left > 0 and (read := await loop.sock_recv(client, READ_BYTES)):
                left -= len(read)
