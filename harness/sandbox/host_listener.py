"""A service of the host's own for the doctor to aim at: listens on every address, and is proven to be reachable."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address
from pathlib import Path

from harness.errors import InfrastructureError

_LOCAL_ADDRESS = re.compile(r"\|-- (\S+)\s+/32 host LOCAL")
_CONNECT_S = 2.0


def host_addresses() -> list[str]:
    """Every IPv4 and IPv6 address of this host but its loopback's, without link-local ones."""
    trie = Path("/proc/net/fib_trie")
    found = _LOCAL_ADDRESS.findall(trie.read_text()) if trie.exists() else []
    table = Path("/proc/net/if_inet6")
    for line in table.read_text().splitlines() if table.exists() else ():
        address = IPv6Address(bytes.fromhex(line.split()[0]))
        if not address.is_link_local:
            found.append(str(address))
    return sorted({address for address in found if not address.startswith("127.") and address != "::1"})


@contextmanager
def host_listener() -> Iterator[int]:
    """Listens on every address of the host while the block runs; yields the port.

    Raises:
        InfrastructureError: the host cannot reach it itself, so that "unreachable" from elsewhere would prove nothing.
    """
    with _open() as server:
        server.listen(16)
        port = int(server.getsockname()[1])
        ending = threading.Event()
        thread = threading.Thread(target=_accept, args=(server, ending), name="doctor-listener", daemon=True)
        thread.start()
        try:
            _check(port)
            yield port
        finally:
            ending.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _open() -> socket.socket:
    if Path("/proc/net/if_inet6").exists() and socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _accept(server: socket.socket, ending: threading.Event) -> None:
    while not ending.is_set():
        try:
            link, _ = server.accept()
        except OSError:
            return
        link.close()


def _check(port: int) -> None:
    for address in ("127.0.0.1", *host_addresses()):
        try:
            socket.create_connection((address, port), timeout=_CONNECT_S).close()
        except OSError as error:
            raise InfrastructureError(
                f"the doctor's own listener cannot be reached at {address}:{port}: {error}",
                "Let the host reach its own addresses (a local firewall?), or the isolation cannot be proven.",
            ) from error
