"""HTTP servers whose clients may be hostile: connections bounded by address, and none that never ends its head."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness.errors import PrerequisiteError

HEAD_TIMEOUT_S = 20.0
BACKLOG = 512


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with so many connections for each address, and none that never asks anything."""

    max_connections: ClassVar[int]
    open_connections: ClassVar[Counter[str]]
    _wait: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.open_connections[self._address] += 1
        if self.open_connections[self._address] > self.max_connections:
            transport.abort()
            return
        self._begin_wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Also a kept connection can begin a head and never end it.
        is_head_open = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not is_head_open:
            self._end_wait()
        elif self._wait is None:
            self._begin_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections[self._address] -= 1
        if not self.open_connections[self._address]:
            del self.open_connections[self._address]
        self._end_wait()
        super().connection_lost(exc)

    def _begin_wait(self) -> None:
        self._wait = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _end_wait(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None


def bounded_protocol(max_connections: int) -> type[BoundedProtocol]:
    """The protocol of one server, with a count of its own and at most so many connections for each address."""

    class Protocol(BoundedProtocol):
        open_connections: ClassVar[Counter[str]] = Counter()

    Protocol.max_connections = max_connections
    return Protocol


def server_config(app: Any, **options: Any) -> uvicorn.Config:
    """What every server of ours has in common: no logs, no trust in headers, nothing but HTTP."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **options,
    )


def listen_tcp(host: str, port: int, who: str) -> socket.socket:
    """A listening socket for the agents of a service called `who`.

    Raises:
        PrerequisiteError: the port is taken.
    """
    # With protocol 0 asyncio leaves Nagle's algorithm on, and a reply can wait 40 ms for the client's ACK.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        raise PrerequisiteError(f"port {port} is not to be had: {error}", f"Is another {who} running?") from error
    server.listen(BACKLOG)
    return server
