"""The two HTTP servers of the grader, each on a thread and loop of its own, with limits against hostile clients."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from typing import Any, ClassVar

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness.errors import InfrastructureError, PrerequisiteError

MAX_HEAD_BYTES = 16 * 2**10
MAX_CONNECTIONS_PER_ADDRESS = 64
HEAD_TIMEOUT_S = 20.0
KEEP_ALIVE_S = 5
GRACE_S = 3
START_TIMEOUT_S = 10.0
BACKLOG = 512


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 for clients that may be hostile: so many connections per address, and none that never asks anything."""

    open_connections: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.open_connections[self._address] += 1
        if self.open_connections[self._address] > MAX_CONNECTIONS_PER_ADDRESS:
            transport.abort()
            return
        self._silence = self.loop.call_later(HEAD_TIMEOUT_S, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections[self._address] -= 1
        if not self.open_connections[self._address]:
            del self.open_connections[self._address]
        if hasattr(self, "_silence"):
            self._silence.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        """A connection without a whole request head after a while; what waits for its answer has had one."""
        if self.cycle is None:
            self.transport.close()


class HttpServer:
    """One application on one listening socket, in a thread."""

    def __init__(self, app: FastAPI, listening: socket.socket, *, is_hostile: bool) -> None:
        options: dict[str, Any] = {"http": BoundedProtocol if is_hostile else "h11"}
        config = uvicorn.Config(
            app,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            **options,
        )
        self._server = uvicorn.Server(config)
        self._socket = listening
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name=app.title, daemon=True
        )

    def start(self) -> None:
        """Returns when the application answers.

        Raises:
            InfrastructureError: it does not.
        """
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise InfrastructureError("an HTTP server of the grader did not start", "See the grader's log.")
            time.sleep(0.005)

    def begin_stop(self) -> None:
        """Takes no more connections; open requests have the grace to finish."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Returns when it has ended."""
        self.begin_stop()
        self._thread.join(GRACE_S + 2)
        self._socket.close()


def listen_tcp(host: str, port: int) -> socket.socket:
    """A listening socket for the agent side.

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
        raise PrerequisiteError(f"port {port} is not to be had: {error}", "Is another grader running?") from error
    server.listen(BACKLOG)
    return server
