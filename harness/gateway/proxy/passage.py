"""One connection that a run may have: the host is found and reached, shows in the ClientHello, and bytes pass."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Executor
from contextlib import closing

from harness.domain.connections import Connection, ConnectionVerdict
from harness.errors import ConnectRefusal
from harness.gateway.config import ProxyLimits
from harness.gateway.proxy.addresses import addresses_of, reachable
from harness.gateway.proxy.client_hello import ALERT, MAX_HELLO_BYTES, server_name
from harness.gateway.proxy.sockets import ESTABLISHED, READ_BYTES, connected, last_word
from harness.gateway.proxy.tunnel import Tunnel


class Passage:
    """From an agent to `host`; what became of it is in `row` at any time."""

    def __init__(self, client: socket.socket, row: Connection, limits: ProxyLimits) -> None:
        self._client, self._limits = client, limits
        self._row = row
        self._tunnel: Tunnel | None = None
        self._verdict: ConnectionVerdict = "allowed"
        self._reason = "cut off"

    @property
    def row(self) -> Connection:
        """The connection as it is now."""
        up, down = (self._tunnel.up, self._tunnel.down) if self._tunnel else (0, 0)
        found = {"verdict": self._verdict, "reason": self._reason, "bytes_up": up, "bytes_down": down}
        return self._row.model_copy(update=found)

    async def run(self, first: bytes, resolvers: Executor) -> None:
        """Carries it to its end. `first` are bytes that came behind the request.

        Raises:
            ConnectRefusal: the host cannot be reached; nothing has been answered yet.
        """
        limits, name = self._limits, self._row.host
        try:
            found = await addresses_of(name, resolvers, limits.connect_s)
            places = reachable(name, found, limits.addresses)
            host = await connected(name, places, limits.port, limits.connect_s)
        except ConnectRefusal as refusal:
            self._ended("failed" if refusal.status == 502 else "refused", refusal.what)
            raise
        with closing(host):
            await self._through(host, first)

    async def _through(self, host: socket.socket, first: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._client, ESTABLISHED)
            hello = await self._hello(first)
            self._tunnel = Tunnel(self._client, host, self._limits.idle_s, self._limits.closing_s)
            await self._tunnel.send(hello)
            self._ended("allowed", await self._tunnel.run())
        except ConnectRefusal as refusal:
            self._ended("refused", refusal.what)
            await last_word(self._client, ALERT)
        except OSError:
            self._ended("allowed", "broken off")

    async def _hello(self, data: bytes) -> bytes:
        """What the agent sends first, whole: the ClientHello of a connection to this very host."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.head_s):
                while (name := server_name(data)) is None:
                    more = await loop.sock_recv(self._client, READ_BYTES)
                    if not more or len(data) > 2 * MAX_HELLO_BYTES:
                        raise ConnectRefusal(403, "no ClientHello came")
                    data += more
        except TimeoutError:
            raise ConnectRefusal(403, "no ClientHello came in time") from None
        if name != self._row.host:
            raise ConnectRefusal(403, f"the ClientHello asks for another server: {name}")
        return data

    def _ended(self, verdict: ConnectionVerdict, reason: str) -> None:
        self._verdict, self._reason = verdict, reason
