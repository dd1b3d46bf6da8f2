"""The two HTTP servers of the grader, each on a thread and loop of its own, with limits against hostile clients."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn
from fastapi import FastAPI

from harness.errors import InfrastructureError
from harness.hostile_http import bounded_protocol, server_config

MAX_HEAD_BYTES = 16 * 2**10
MAX_CONNECTIONS_PER_ADDRESS = 64
KEEP_ALIVE_S = 5
GRACE_S = 3
START_TIMEOUT_S = 10.0


class HttpServer:
    """One application on one listening socket, in a thread."""

    def __init__(self, app: FastAPI, listening: socket.socket, *, is_hostile: bool) -> None:
        config = server_config(
            app,
            http=bounded_protocol(MAX_CONNECTIONS_PER_ADDRESS) if is_hostile else "h11",
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
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
