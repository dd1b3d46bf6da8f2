"""Where a host name leads: its addresses, asked for once, and which of them an agent may be connected to."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Executor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from harness.errors import ConnectRefusal

Address = IPv4Address | IPv6Address
# Reached from machines of that cloud alone, at an address that looks public: it hands out a machine's configuration.
METADATA = frozenset({ip_address("168.63.129.16")})
# Carry an IPv4 address in their last bits: NAT64 (RFC 6052, RFC 8215).
NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
# Reserved, and yet global to Python: protocol assignments, 6to4 relays, the site-local addresses of old.
RESERVED = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("fec0::/10"), *NAT64)


def is_public(address: Address) -> bool:
    """Whether an address is one of the open Internet: none of this host, a private network, a cloud's own services."""
    if not address.is_global or address.is_multicast or address.is_reserved or address in METADATA:
        return False
    return all(is_public(inner) for inner in _inside(address)) and not any(address in network for network in RESERVED)


def _inside(address: Address) -> list[IPv4Address]:
    """IPv4 addresses that packets to this one may end at."""
    if isinstance(address, IPv4Address):
        return []
    teredo = address.teredo or ()
    return [inner for inner in (address.ipv4_mapped, address.sixtofour, *teredo) if inner is not None]


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


def reachable(name: str, found: list[Address], *, is_any_allowed: bool) -> list[Address]:
    """Those of the addresses that may be connected to.

    Raises:
        ConnectRefusal: there are none.
    """
    if not found:
        raise ConnectRefusal(502, f"{name} has no address")
    public = [address for address in found if is_any_allowed or is_public(address)]
    if not public:
        raise ConnectRefusal(403, f"{name} does not lead to a public address")
    return public
