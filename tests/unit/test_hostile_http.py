"""Connections of clients that may be hostile: bounded in number, and none that never ends its head."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from served import wait_until
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from harness import hostile_http

WAIT_S = 0.3


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(hostile_http, "HEAD_TIMEOUT_S", WAIT_S)

    async def hello(_request: Any) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app = Starlette(routes=[Route("/", hello)])
    listener = hostile_http.listen_tcp("127.0.0.1", 0, "test")
    config = uvicorn.Config(app, http=hostile_http.bounded_protocol(8), lifespan="off", log_level="critical", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started, 10)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)
    listener.close()


def connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.settimeout(5)
    return client


def ask(client: socket.socket) -> bytes:
    """The reply; empty where the connection is closed instead."""
    client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    reply = b""
    while not reply.endswith(b"hello") and (piece := client.recv(4096)):
        reply += piece
    return reply


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
def test_a_connection_that_asks_nothing_is_closed(port: int, sent: bytes) -> None:
    with connected(port) as client:
        client.sendall(sent)
        assert client.recv(100) == b""


def test_a_kept_connection_that_never_ends_its_next_head_is_closed(port: int) -> None:
    with connected(port) as client:
        assert b"hello" in ask(client)
        client.sendall(b"GET / HT")
        assert client.recv(100) == b""


def test_a_kept_connection_may_rest(port: int) -> None:
    with connected(port) as client:
        assert b"hello" in ask(client)
        client.settimeout(3 * WAIT_S)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(5)
        assert b"hello" in ask(client)


def test_connections_of_one_address_are_bounded_and_room_comes_back(port: int) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(8)]
        assert all(b"hello" in ask(client) for client in clients)
        one_more = stack.enter_context(connected(port))
        with contextlib.suppress(ConnectionResetError):
            assert ask(one_more) == b""

    def has_room() -> bool:
        try:
            with connected(port) as client:
                return b"hello" in ask(client)
        except ConnectionResetError:
            return False

    wait_until(has_room, 5)
