"""Where evaluations' processes come from: started when needed, or, where that takes seconds, one ahead of time.

A process that waits has seen no item and no answer; it serves one request like any other, and is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.scorer.process import Worker, WorkerSpec


class Workers:
    """Fresh workers of one benchmark; `is_ahead`: the next one already waits while nothing is asked."""

    def __init__(self, spec: WorkerSpec, *, is_ahead: bool) -> None:
        self._spec = spec
        self._is_ahead = is_ahead
        self._lock = threading.Lock()
        self._waiting: Worker | None = None

    @contextmanager
    def fresh(self) -> Iterator[Worker]:
        """A worker that nobody has used; the next one is started when this one is gone."""
        try:
            yield self._take()
        finally:
            self.prepare()

    def prepare(self) -> None:
        """Has a worker wait, if this is done ahead of time here."""
        with self._lock:
            if self._is_ahead and self._waiting is None:
                self._waiting = Worker(self._spec)

    def close(self) -> None:
        """Ends the one that waits."""
        with self._lock:
            worker, self._waiting = self._waiting, None
        if worker is not None:
            worker.end()

    def _take(self) -> Worker:
        with self._lock:
            worker, self._waiting = self._waiting, None
        if worker is not None and not worker.is_alive():
            worker.end()
            worker = None
        return worker or Worker(self._spec)
