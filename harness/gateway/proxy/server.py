"""The proxy's server: takes agents' connections, asks whose they are and where to, and lets through what is allowed."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

from loguru import logger

from harness.domain.hosts import is_covered
from harness.errors import ConnectRefusal
from harness.gateway.config import ProxyLimits
from harness.gateway.cutting import cut
from harness.gateway.proxy.head import Head, asked_for, read_head
from harness.gateway.proxy.passage import Passage
from harness.gateway.proxy.sockets import refuse, tuned
from harness.gateway.registry import OpenRun, Registry

RESOLVERS = 8
# Open connections of one address, whosoever they are, to those that a run may have.
ADDRESS_SHARE = 2
# The process is out of descriptors: connections that end free some.
ACCEPT_PAUSE_S = 0.1


class Proxy:
    """Tunnels of all runs of one registry; `close_run` cuts those of one."""

    def __init__(self, registry: Registry, limits: ProxyLimits) -> None:
        self._registry = registry
        self._limits = limits
        # Of its own: questions to a slow resolver must not hold up what else is done in threads.
        self._resolvers = ThreadPoolExecutor(RESOLVERS, "resolver")
        self._by_address: Counter[str] = Counter()
        self._open: set[asyncio.Task[None]] = set()
        self._by_run: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)

    async def serve(self, server: socket.socket) -> None:
        """Answers on a listening socket until it is cancelled; every connection ends with it."""
        loop = asyncio.get_running_loop()
        server.setblocking(False)
        try:
            while True:
                try:
                    client, (address, *_) = await loop.sock_accept(server)
                except OSError as error:
                    logger.warning("the proxy cannot take a connection: {}", error)
                    await asyncio.sleep(ACCEPT_PAUSE_S)
                    continue
                self._take(client, address)
        finally:
            await cut(self._open)
            self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def close_run(self, run_id: str) -> None:
        """Cuts the connections of a run; each has been written down, with what went through, when this returns."""
        await cut(self._by_run.pop(run_id, set()))

    def _take(self, client: socket.socket, address: str) -> None:
        if self._by_address[address] >= ADDRESS_SHARE * self._limits.connections:
            client.close()
            return
        self._by_address[address] += 1
        task = asyncio.create_task(self._answer(client, address))
        self._open.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self._open.discard(task)
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("a connection of the proxy failed: {!r}", error)

        task.add_done_callback(over)

    async def _answer(self, client: socket.socket, address: str) -> None:
        # A connection that breaks, or a head that does not come in time, is nothing to talk about.
        with closing(client), suppress(ConnectionError, TimeoutError):
            tuned(client)
            try:
                async with asyncio.timeout(self._limits.head_s):
                    head = await read_head(client, self._limits.head_bytes)
                if head is not None:
                    await self._for_run(client, head, self._caller(head, address))
            except ConnectRefusal as refusal:
                await refuse(client, refusal)

    def _caller(self, head: Head, address: str) -> OpenRun:
        run = self._registry.find(head.token or "", address)
        if run is None:
            raise ConnectRefusal(407, "the run's token is needed", "Its user is `run`: see HTTPS_PROXY.")
        return run

    async def _for_run(self, client: socket.socket, head: Head, run: OpenRun) -> None:
        task, own = asyncio.current_task(), self._by_run[run.spec.run_id]
        assert task is not None
        own.add(task)
        try:
            host = self._allowed(head, run, len(own))
            passage = Passage(client, run.connections.begun(host, self._limits.port), self._limits)
            try:
                await passage.run(head.rest, self._resolvers)
            finally:
                run.connections.ended(passage.row)
        finally:
            own.discard(task)

    def _allowed(self, head: Head, run: OpenRun, n_open: int) -> str:
        """The host that a run may be connected to now."""
        limits, host, port = self._limits, head.target, 0
        try:
            host, port = asked_for(head, limits.port), limits.port
            if not is_covered(host, run.spec.allowed_hosts):
                listed = ", ".join(run.spec.allowed_hosts) or "none"
                raise ConnectRefusal(403, f"{host} is not allowed in this run", f"Allowed: {listed}.")
            if n_open > limits.connections:
                raise ConnectRefusal(429, f"this run may have {limits.connections} connections at a time")
            if not run.connections.has_room(limits.rows):
                raise ConnectRefusal(429, f"this run has had {limits.rows} connections, and may have no more")
        except ConnectRefusal as refusal:
            run.connections.refused(host, port, refusal.what, limits.refusals)
            raise
        return host
