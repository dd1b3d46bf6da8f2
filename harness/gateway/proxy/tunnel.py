"""Bytes both ways between an agent and a host, counted; one that is silent for too long is ended."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

CHUNK = 128 * 2**10


class Tunnel:
    """One connection of an agent and one to a host; `up` are bytes from the agent, `down` those to it."""

    def __init__(self, agent: socket.socket, host: socket.socket, idle_s: float, closing_s: float) -> None:
        self._agent, self._host = agent, host
        self._idle_s, self._closing_s = idle_s, closing_s
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self.up = self.down = 0

    async def send(self, first: bytes) -> None:
        """Bytes of the agent that were read already."""
        await self._loop.sock_sendall(self._host, first)
        self.up += len(first)

    async def run(self) -> str:
        """Carries bytes until both sides have ended; otherwise why not: `silent`, `broken off`."""
        under_way = {asyncio.create_task(self._up()), asyncio.create_task(self._down())}
        every = tuple(under_way)
        try:
            while under_way:
                # Where one side has ended, the other has little time to end too.
                patience_s = self._idle_s if len(under_way) == len(every) else self._closing_s
                left_s = self._active_at + patience_s - self._loop.time()
                if left_s <= 0:
                    return "silent"
                done, under_way = await asyncio.wait(under_way, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if any(task.exception() is not None for task in done):
                    return "broken off"
            return ""
        finally:
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)

    async def _up(self) -> None:
        async for size in self._carried(self._agent, self._host):
            self.up += size

    async def _down(self) -> None:
        async for size in self._carried(self._host, self._agent):
            self.down += size

    async def _carried(self, source: socket.socket, target: socket.socket) -> AsyncIterator[int]:
        buffer = bytearray(CHUNK)
        view = memoryview(buffer)
        while size := await self._loop.sock_recv_into(source, buffer):
            await self._loop.sock_sendall(target, view[:size])
            self._active_at = self._loop.time()
            yield size
            # Neither of the two waits where there is always something to read: others would never have their turn.
            await asyncio.sleep(0)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
