"""Unix sockets at paths of any length: an address to connect to, and a listening socket with a mode."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# sockaddr_un holds 108 bytes with the closing zero.
MAX_PATH_BYTES = 107
BACKLOG = 128


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """An address of `path` that fits a `sockaddr_un`: a long path goes through an open descriptor of its folder."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen(path: Path, mode: int) -> socket.socket:
    """A listening socket at `path` with permission bits `mode`; one left there by a dead process is replaced."""
    with suppress(FileNotFoundError):
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with reachable(path) as address:
        server.bind(address)
    path.chmod(mode)
    server.listen(BACKLOG)
    return server
