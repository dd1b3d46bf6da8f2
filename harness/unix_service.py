"""A FastAPI application on a unix socket, without access log and without bodies in any log."""

from __future__ import annotations

from pathlib import Path

import uvicorn
from fastapi import FastAPI

from harness.unix_socket import listen

SOCKET_MODE = 0o666
GRACE_S = 2


def serve(app: FastAPI, path: Path, mode: int = SOCKET_MODE) -> None:
    """Answers on the socket at `path` until SIGTERM or SIGINT; the socket is removed afterwards."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
        server_header=False,
    )
    server = listen(path, mode)
    try:
        uvicorn.Server(config).run(sockets=[server])
    finally:
        server.close()
        path.unlink(missing_ok=True)
