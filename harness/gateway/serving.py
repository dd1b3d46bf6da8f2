"""Both servers of the gateway on one loop: TCP for agents, with limits against hostile clients, and a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from harness.hostile_http import bounded_protocol, server_config

MAX_HEAD_BYTES = 32 * 2**10
# A run has an address of its own; 64 streams at a time, and as many that end or begin.
MAX_CONNECTIONS_PER_ADDRESS = 192
# Longer than clients keep a connection: the one that closes first should not be the server.
KEEP_ALIVE_S = 60
GRACE_S = 5


class _Server(uvicorn.Server):
    """One of several on a loop: signals are not its business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(agents: Any, agents_socket: socket.socket, admin: Any, admin_socket: socket.socket) -> None:
    """Answers on both sockets until SIGTERM or SIGINT; calls under way have a grace to end."""
    # It would log a cut stream as the fault of this application.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    hostile = _server(
        agents, http=bounded_protocol(MAX_CONNECTIONS_PER_ADDRESS), h11_max_incomplete_event_size=MAX_HEAD_BYTES
    )
    trusted = _server(admin, http="h11")
    loop = asyncio.get_running_loop()

    def stop() -> None:
        hostile.should_exit = trusted.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await asyncio.gather(hostile.serve([agents_socket]), trusted.serve([admin_socket]))


def _server(app: Any, **options: Any) -> _Server:
    config = server_config(app, timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=GRACE_S, **options)
    return _Server(config)
