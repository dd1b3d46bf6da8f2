"""A limit on the processor time of a piece of Python in one thread, however many other threads there are."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_EVERY_S = 0.25


class TookTooLong(BaseException):
    """The limit was met; not an `Exception`, so that no `except Exception` inside goes on."""


class _Watch:
    """One piece of work and its thread; `is_over` is changed under the lock, so that nothing is hit afterwards."""

    def __init__(self, limit_s: float) -> None:
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._end_s = time.clock_gettime(self._clock) + limit_s
        self.lock = threading.Lock()
        self.is_over = False

    def look(self) -> bool:
        """Whether the work still goes on; it is broken off here if its time is up."""
        with self.lock:
            if self.is_over or time.clock_gettime(self._clock) < self._end_s:
                return not self.is_over
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(TookTooLong))
            return False


class _Watcher:
    """The thread that looks at all watches, started with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: list[_Watch] = []
        self._is_started = False

    def add(self, watch: _Watch) -> None:
        with self._lock:
            self._watches.append(watch)
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            with self._lock:
                self._watches = [watch for watch in self._watches if watch.look()]


_WATCHER = _Watcher()


@contextmanager
def bounded(cpu_s: float) -> Iterator[None]:
    """Breaks the block off after `cpu_s` of this thread's processor time. Only between two steps of Python code: a
    single long call into C goes on.

    Raises:
        TookTooLong: it was broken off.
    """
    watch = _Watch(cpu_s)
    _WATCHER.add(watch)
    try:
        yield
    finally:
        with watch.lock:
            watch.is_over = True
