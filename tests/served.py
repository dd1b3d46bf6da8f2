"""Real HTTP services for tests: an application in a thread, on a unix socket or a port, or a service's own process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from harness.unix_socket import listen

ROOT = Path(__file__).resolve().parents[1]


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def served(app: Starlette, path: Path) -> Iterator[None]:
    """`app` answers on the unix socket at `path`."""
    with _served(app, listen(path, 0o600), "error"):
        yield


@contextmanager
def served_on_port(app: Starlette, host: str = "127.0.0.1") -> Iterator[int]:
    """`app` answers on a free port of `host`; it may break on purpose, of which nothing is logged."""
    listener = socket.create_server((host, 0))
    with _served(app, listener, "critical"):
        yield int(listener.getsockname()[1])


@contextmanager
def _served(app: Starlette, listener: socket.socket, log_level: str) -> Iterator[None]:
    config = uvicorn.Config(app, log_level=log_level, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@contextmanager
def service_process(
    module: str, path: Path, *options: str, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m <module> --socket <path> ...`, with its log beside the socket."""
    command = [python, "-m", module, "--socket", str(path), *options]
    with path.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, **(environment or {})})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
