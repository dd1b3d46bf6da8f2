"""A small thread pool in which one run's jobs never take the threads of another's."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class FairPool:
    """Runs jobs of a run in order, `per_run` at a time; the rest wait in a queue of that run, not in a thread."""

    def __init__(self, threads: int, per_run: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._per_run = per_run
        self._lock = threading.Lock()
        self._active: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = defaultdict(deque)

    def submit(self, run_id: str, job: Callable[[], T]) -> Future[T]:
        """The future result of `job`, which starts when its run has room."""
        future: Future[T] = Future()
        with self._lock:
            self._waiting[run_id].append((future, job))
        self._start(run_id)
        return future

    def _start(self, run_id: str) -> None:
        with self._lock:
            if self._active[run_id] >= self._per_run or not self._waiting[run_id]:
                if not self._active[run_id]:
                    del self._active[run_id], self._waiting[run_id]
                return
            self._active[run_id] += 1
            future, job = self._waiting[run_id].popleft()
        self._executor.submit(self._work, run_id, future, job)

    def _work(self, run_id: str, future: Future[Any], job: Callable[[], Any]) -> None:
        try:
            result = job()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the future
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            with self._lock:
                self._active[run_id] -= 1
            self._start(run_id)
