"""Where a host name leads: its addresses, asked for once, and which of them an agent may be connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from harness.errors import ConnectRefusal
from harness.gateway.config import AddressKind

Address = IPv4Address | IPv6Address
# Services of clouds that hand out a machine's configuration, at addresses that look like another machine's.
METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")))
# Carry an IPv4 address inside: NAT64 (RFC 6052, RFC 8215), and the compatible addresses of old.
CARRIERS = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
# Reserved, and yet global to Python: protocol assignments, 6to4 relays, the site-local addresses of old.
RESERVED = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("fec0::/10"))


def is_public(address: Address) -> bool:
    """Whether an address is one of the open Internet: none of this host, a private network, a cloud's own services."""
    return address.is_global and is_another_host(address) and not _is_in(address, RESERVED)


def is_another_host(address: Address) -> bool:
    """Whether an address is one machine's other than this one; a cloud's own services count as part of this one."""
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        return False
    if address.is_reserved or address in METADATA or _is_in(address, CARRIERS):
        return False
    return not (isinstance(address, IPv6Address) and (address.ipv4_mapped or address.sixtofour or address.teredo))


def _is_in(address: Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


ALLOWED: Mapping[AddressKind, Callable[[Address], bool]] = {
    "public": is_public,
    "private": is_another_host,
    "any": lambda address: True,
}


async def addresses_of(name: str, executor: Executor, timeout_s: float) -> list[Address]:
    """The addresses of a host name, in the resolver's order; empty where it has none or cannot be asked for in time."""
    loop = asyncio.get_running_loop()
    # With the final dot no search domain is tried; a name without any dot is this machine's own (`localhost`).
    asked = f"{name}." if "." in name else name
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.run_in_executor(executor, _look_up, asked)
    except (TimeoutError, OSError):
        return []
    return list(dict.fromkeys(found))


def _look_up(name: str) -> list[Address]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]


def reachable(name: str, found: list[Address], kind: AddressKind) -> list[Address]:
    """Those of the addresses that may be connected to.

    Raises:
        ConnectRefusal: there are none.
    """
    if not found:
        raise ConnectRefusal(502, f"{name} has no address")
    allowed = [address for address in found if ALLOWED[kind](address)]
    if not allowed:
        raise ConnectRefusal(403, f"{name} does not lead to a {kind} address")
    return allowed
