"""A service of the host's on every address, which knows who has called."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Listening:
    """One port for TCP and UDP; `callers` are those who got through."""

    def __init__(self) -> None:
        self.callers: list[str] = []
        self._streams = socket.create_server(("0.0.0.0", 0))
        self.port = int(self._streams.getsockname()[1])
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind(("0.0.0.0", self.port))

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                link, caller = self._streams.accept()
                self.callers.append(f"tcp {caller[0]}")
                link.close()

    def receive(self) -> None:
        with suppress(OSError):
            while True:
                _, caller = self._datagrams.recvfrom(4096)
                if caller is None:  # woken by `shutdown`
                    return
                self.callers.append(f"udp {caller[0]}")

    def close(self) -> None:
        for server in (self._streams, self._datagrams):
            # `close` alone does not wake a thread that waits in it.
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()


@contextmanager
def listening(addresses: list[str]) -> Iterator[Listening]:
    """Listens while the block runs; proven to be reachable from the host by each of `addresses`."""
    server = Listening()
    threads = [threading.Thread(target=work, daemon=True) for work in (server.accept, server.receive)]
    for thread in threads:
        thread.start()
    try:
        for address in addresses:
            socket.create_connection((address, server.port), timeout=10).close()
        yield server
    finally:
        server.close()
        for thread in threads:
            thread.join(5)
