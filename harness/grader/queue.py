"""The workers: one thread for each run that has something to do, started on demand, gone when idle."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from harness.grader.registry import ActiveRun
from harness.grader.worker import LoadCheck, RunWorker
from harness.grader.workshop import Stopped, Workshop, cut_off

IDLE_S = 5.0
PAUSE_AFTER_TROUBLE_S = 1.0


@dataclass(frozen=True)
class Place:
    """A run's thread: whose it is, and what wakes it."""

    run: ActiveRun
    event: threading.Event


class Workers:
    """Starts and ends the worker threads; the queue itself is in the database."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._lock = threading.Lock()
        self._places: dict[str, Place] = {}
        # Runs that were closed and reopened while their old thread was inside a call: one at a time works on a run.
        self._successors: dict[str, ActiveRun] = {}
        self._checks: dict[str, deque[LoadCheck]] = defaultdict(deque)

    def wake(self, run: ActiveRun) -> None:
        """Makes sure that a thread looks at the run's queue."""
        with self._lock:
            self._wake(run)

    def _wake(self, run: ActiveRun) -> bool:
        """Under the lock; False if nobody will look, because the run or the process ends."""
        place = self._places.get(run.run_id)
        if place is not None:
            if place.run is not run:
                self._successors[run.run_id] = run
            place.event.set()
            return True
        if self._shop.stopping.is_set() or run.closed.is_set():
            return False
        place = self._places[run.run_id] = Place(run, threading.Event())
        threading.Thread(target=self._work, args=(place,), name=f"worker-{run.run_id}", daemon=True).start()
        return True

    def check_load(self, run: ActiveRun, folder: Path) -> Future[float]:
        """Seconds that the engine took to load `folder` (relative to the home), once its turn has come.

        A run that ends, or a process that stops, leaves none unanswered.
        """
        check = LoadCheck(folder, Future())
        # One lock for both: a thread that retires in between would take the check for one that it has to refuse.
        with self._lock:
            if self._wake(run):
                self._checks[run.run_id].append(check)
            else:
                check.result.set_exception(cut_off(run))
        return check.result

    def stop(self) -> None:
        """Lets every worker end that is not inside a call; what is inside one is taken up after a restart."""
        self._shop.stopping.set()
        with self._lock:
            for place in self._places.values():
                place.event.set()

    def _work(self, place: Place) -> None:
        try:
            while self._work_until_trouble(place):
                self._shop.stopping.wait(PAUSE_AFTER_TROUBLE_S)
        finally:
            self._leave(place)

    def _work_until_trouble(self, place: Place) -> bool:
        """Works until the run has nothing left (False), or something unforeseen happens (True)."""
        try:
            worker = RunWorker(self._shop, place.run, self._checks[place.run.run_id])
            while self._step_or_wait(worker, place):
                pass
        except Stopped:
            return False
        except Exception:  # noqa: BLE001 - the edge of a thread: it must live on, with the trouble in the log
            logger.exception("the worker of {} is in trouble", place.run.run_id)
            return True
        return False

    def _step_or_wait(self, worker: RunWorker, place: Place) -> bool:
        """One piece of work, or a wait for some; False when there was none for a while."""
        place.event.clear()
        if self._shop.stopping.is_set() or place.run.closed.is_set():
            raise Stopped
        return worker.step() or place.event.wait(IDLE_S) or not self._retired(place)

    def _retired(self, place: Place) -> bool:
        with self._lock:
            if place.event.is_set():
                return False
            del self._places[place.run.run_id]
            return True

    def _leave(self, place: Place) -> None:
        run_id = place.run.run_id
        with self._lock:
            if self._places.get(run_id) is place:
                del self._places[run_id]
            successor = self._successors.pop(run_id, None)
            left = () if run_id in self._places else tuple(self._checks.pop(run_id, ()))
        for check in left:
            if check.result.set_running_or_notify_cancel():
                check.result.set_exception(cut_off(place.run))
        if successor is not None:
            self.wake(successor)
