"""Requests that wait for a submission to end: an event each, set from whichever thread ended it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Waiters:
    """Events by submission id; waiting holds no thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self.is_stopping = False

    @contextmanager
    def watch(self, submission_id: int) -> Iterator[asyncio.Event]:
        """An event that is set when this submission ends. Look at its state inside the block, not before."""
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.setdefault(submission_id, []).append(entry)
        try:
            yield entry[1]
        finally:
            with self._lock:
                self._waiting[submission_id].remove(entry)
                if not self._waiting[submission_id]:
                    del self._waiting[submission_id]

    def wake(self, submission_id: int) -> None:
        """Sets the events of one submission."""
        with self._lock:
            for loop, event in self._waiting.get(submission_id, ()):
                loop.call_soon_threadsafe(event.set)

    def stop(self) -> None:
        """Sets every event: the process is about to end, and requests must be answered before."""
        self.is_stopping = True
        with self._lock:
            for entries in self._waiting.values():
                for loop, event in entries:
                    loop.call_soon_threadsafe(event.set)
