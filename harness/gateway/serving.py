"""Both servers of the gateway on one loop: TCP for agents, with limits against hostile clients, and a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness.errors import PrerequisiteError

MAX_HEAD_BYTES = 32 * 2**10
# A run has an address of its own; 64 streams at a time, and as many that end or begin.
MAX_CONNECTIONS_PER_ADDRESS = 192
HEAD_TIMEOUT_S = 20.0
# Longer than clients keep a connection: the one that closes first should not be the server.
KEEP_ALIVE_S = 60
GRACE_S = 5
BACKLOG = 512


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 for clients that may be hostile: so many connections per address, none that never asks anything."""

    open_connections: ClassVar[Counter[str]] = Counter()
    _wait: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.open_connections[self._address] += 1
        if self.open_connections[self._address] > MAX_CONNECTIONS_PER_ADDRESS:
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


class _Server(uvicorn.Server):
    """One of several on a loop: signals are not its business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen_tcp(host: str, port: int) -> socket.socket:
    """A listening socket for the agents.

    Raises:
        PrerequisiteError: the port is taken.
    """
    # With protocol 0 asyncio leaves Nagle's algorithm on, and an event can wait 40 ms for the client's ACK.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        raise PrerequisiteError(f"port {port} is not to be had: {error}", "Is another gateway running?") from error
    server.listen(BACKLOG)
    return server


async def serve(agents: Any, agents_socket: socket.socket, admin: Any, admin_socket: socket.socket) -> None:
    """Answers on both sockets until SIGTERM or SIGINT; calls under way have a grace to end."""
    # It would log a cut stream as the fault of this application.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    hostile = _server(agents, http=BoundedProtocol, h11_max_incomplete_event_size=MAX_HEAD_BYTES)
    trusted = _server(admin, http="h11")
    loop = asyncio.get_running_loop()

    def stop() -> None:
        hostile.should_exit = trusted.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await asyncio.gather(hostile.serve([agents_socket]), trusted.serve([admin_socket]))


def _server(app: Any, **options: Any) -> _Server:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        **options,
    )
    return _Server(config)
