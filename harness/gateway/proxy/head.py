"""The head of a request to the proxy: who asks, and for which host."""

from __future__ import annotations

import asyncio
import base64
import binascii
import socket
from dataclasses import dataclass

import h11

from harness.domain.hosts import host_name
from harness.errors import ConnectRefusal
from harness.gateway.proxy.sockets import READ_BYTES

USER = "run"
MAX_SHOWN = 100


@dataclass(frozen=True)
class Head:
    """A request as it came: method, target as text that can be shown, the token it carries, what came behind it."""

    method: str
    target: str
    token: str | None
    rest: bytes


async def read_head(client: socket.socket, max_bytes: int) -> Head | None:
    """The head that a client sends; None where it sends none.

    Raises:
        ConnectRefusal: it is none, or too long.
    """
    loop, parser = asyncio.get_running_loop(), h11.Connection(h11.SERVER, max_incomplete_event_size=max_bytes)
    try:
        while (event := parser.next_event()) is h11.NEED_DATA:
            data = await loop.sock_recv(client, READ_BYTES)
            if not data:
                return None
            parser.receive_data(data)
    except h11.RemoteProtocolError:
        raise ConnectRefusal(400, "that is no request of HTTP/1.1, or too long") from None
    if not isinstance(event, h11.Request):
        return None
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    return Head(
        event.method.decode("ascii"),
        event.target.decode("ascii", "replace"),
        _token(headers.get("proxy-authorization", "")),
        parser.trailing_data[0],
    )


def asked_for(head: Head, port: int) -> str:
    """The host that a head asks a tunnel to, in its one spelling.

    Raises:
        ConnectRefusal: it asks for something else.
    """
    if head.method != "CONNECT":
        raise ConnectRefusal(405, f"only CONNECT to port {port} (https) passes, no {head.method[:MAX_SHOWN]}")
    name, colon, number = head.target.rpartition(":")
    if not colon or not number.isdecimal() or not number.isascii():
        raise ConnectRefusal(400, "CONNECT is followed by host:port")
    if int(number[:6]) != port:
        raise ConnectRefusal(403, f"only port {port} (https) is reached")
    try:
        return host_name(name)
    except ValueError as error:
        raise ConnectRefusal(403, f"{name[:MAX_SHOWN]!r} {error}: only named hosts are reached") from None


def _token(header: str) -> str | None:
    """What `Proxy-Authorization: Basic` carries as the password of the user `run`."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, _, token = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return token if user == USER else None
