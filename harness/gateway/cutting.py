"""Cutting off what a run has under way when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

# What ends at once writes its last line; nothing may keep the harness waiting for longer.
END_S = 5.0


async def cut(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancels the tasks, and returns when they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tuple(tasks), timeout=END_S)
