"""From a request to a queued submission: counted at the door, copied and judged in a bounded pool, then queued."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from loguru import logger

from harness.domain.base import now_utc
from harness.errors import RequestError, RunEnded
from harness.grader.admission import AdmissionLimits, Admitted, admit
from harness.grader.allowance import allowance_of
from harness.grader.blame import blamed
from harness.grader.examiner import Examiner
from harness.grader.fair_pool import FairPool
from harness.grader.opening import parts_of
from harness.grader.queue import Workers
from harness.grader.registry import ActiveRun
from harness.grader.snapshots import SnapshotStore
from harness.grader.workshop import Stopped, Workshop, cut_off
from harness.store.models import NewSubmission, SubmissionRecord
from harness.store.quota import quota_of
from harness.store.records_queue import admitting_submissions
from harness.store.records_submissions import mark_admitted, new_submission, reject_submission

THREADS, THREADS_PER_RUN = 4, 1
# To examine a submission takes seconds at most, beside several siblings of a large model.
SETTLE_S = 20.0
TICK = timedelta(microseconds=1)
ADMITTED_AGAIN = "taken up again after a restart of the grader"

T = TypeVar("T")


class CopyClock:
    """Called during a copy: ends it when the run's time is up or the process stops, and knows when it was complete."""

    def __init__(self, run: ActiveRun, stopping: threading.Event, *, may_be_late: bool) -> None:
        self._run = run
        self._stopping = stopping
        self._may_be_late = may_be_late
        self._last = now_utc()

    def __call__(self) -> None:
        if self._stopping.is_set() or self._run.closed.is_set():
            raise Stopped
        self._last = now_utc()
        if self._is_late and not self._may_be_late:
            raise RunEnded("the run's time was up before the checkpoint was copied", "Submit earlier.")

    @property
    def _is_late(self) -> bool:
        return self._run.deadline is not None and self._last >= self._run.deadline

    @property
    def copied_at(self) -> datetime:
        """When the copy was complete; what a restart of the grader made late counts as just in time."""
        deadline = self._run.deadline
        return self._last if deadline is None else min(self._last, deadline - TICK)


class Intake:
    """Takes submissions in. Its methods are synchronous and called from threads, never from the event loop."""

    def __init__(self, shop: Workshop, workers: Workers) -> None:
        self._shop = shop
        self._workers = workers
        self._snapshots = SnapshotStore(shop.home.snapshots)
        self._examiner = Examiner(shop)
        self._pool = FairPool(THREADS, THREADS_PER_RUN, "admission")
        self._lock = threading.Lock()
        self._in_flight: set[int] = set()
        self._pending: dict[str, set[Future[Any]]] = {}

    def reserve(self, run: ActiveRun, model_path: str, note: str | None) -> SubmissionRecord:
        """A new submission in state `admitting`, which counts against the quota.

        Raises:
            PathRefused, RunEnded, OverQuota: as the contract says.
            Unready: the clock has not started, or the workspace is not at hand.
        """
        relative = "/".join(parts_of(model_path))
        if not run.is_over:
            with run.output.borrow():
                pass  # refused here rather than after it was counted
        now = now_utc()
        request = NewSubmission(run_id=run.run_id, model_path=relative, submitted_at=now, note=note)
        # One lock for counting and claiming: a descriptor that arrives in between must not admit it a second time.
        with self._lock:
            record = new_submission(self._shop.db, request, quota_of(run.plan))
            self._in_flight.add(record.id)
        run.last_submit_at = now
        self._shop.refresh_queue_length(run)
        return record

    def admit(self, run: ActiveRun, record: SubmissionRecord) -> Future[SubmissionRecord]:
        """The queued submission, once it is copied and judged; runs on whether or not anybody waits."""
        return self._begin(run, partial(self._admit, run, record, is_again=False))

    def take_up(self, run: ActiveRun) -> int:
        """Admits what a dead grader left half-copied; called when the workspace is at hand again. How many."""
        with self._lock:
            left = [r for r in admitting_submissions(self._shop.db, run.run_id) if r.id not in self._in_flight]
            self._in_flight.update(record.id for record in left)
        for record in left:
            self._begin(run, partial(self._admit, run, record, is_again=True))
        return len(left)

    def examine_missed(self, run: ActiveRun) -> None:
        """Looks in the background at what was admitted before, and not examined."""
        self._begin(run, partial(self._examiner.catch_up, run))

    def settle(self, run_id: str) -> None:
        """Waits, within reason, for what goes on for a run: its findings belong to the record that is then kept."""
        with self._lock:
            pending = tuple(self._pending.get(run_id, ()))
        if wait(pending, SETTLE_S).not_done:
            logger.warning("run {} is closed before all its submissions were examined", run_id)

    def _begin(self, run: ActiveRun, work: Callable[[], T]) -> Future[T]:
        future = self._pool.submit(run.run_id, work)
        with self._lock:
            self._pending.setdefault(run.run_id, set()).add(future)
        future.add_done_callback(partial(self._forget, run.run_id))
        return future

    def _forget(self, run_id: str, future: Future[Any]) -> None:
        with self._lock:
            pending = self._pending[run_id]
            pending.discard(future)
            if not pending:
                del self._pending[run_id]

    def inspect(self, run: ActiveRun, model_path: str, store: SnapshotStore) -> Future[Admitted]:
        """Admission into a store of its own, for `/validate`: nothing is recorded."""
        parts_of(model_path)
        return self._pool.submit(run.run_id, partial(self._inspected, run, model_path, store))

    def _inspected(self, run: ActiveRun, model_path: str, store: SnapshotStore) -> Admitted:
        try:
            return self._copy(run, model_path, store, may_be_late=False)[0]
        except Stopped as error:
            raise cut_off(run) from error

    def _admit(self, run: ActiveRun, record: SubmissionRecord, *, is_again: bool) -> SubmissionRecord:
        try:
            # Until it is queued, nothing in the record says that its snapshot is needed.
            with self._snapshots.adding():
                admitted, copied_at = self._judged(run, record, is_again=is_again)
                notes = (*admitted.notes, ADMITTED_AGAIN) if is_again else admitted.notes
                queued = mark_admitted(
                    self._shop.db, record.id, admitted.tree_hash, copied_at=copied_at, note="; ".join(notes) or None
                )
            self._workers.wake(run)
            self._examiner.examine(run, queued.number, admitted.fingerprint)
            return queued
        finally:
            with self._lock:
                self._in_flight.discard(record.id)
            self._shop.waiters.wake(record.id)
            self._shop.refresh_queue_length(run)

    def _judged(self, run: ActiveRun, record: SubmissionRecord, *, is_again: bool) -> tuple[Admitted, datetime]:
        """The admitted copy; a refusal is recorded and raised."""
        try:
            allowance = allowance_of(self._shop.db, run.plan, self._shop.base_of(run))
            store = SnapshotStore(self._snapshots.root, allowance)
            return self._copy(run, record.model_path, store, may_be_late=is_again)
        except Stopped as error:
            # It stays `admitting`, and is taken up by the next process.
            raise cut_off(run) from error
        except RequestError as error:
            reject_submission(self._shop.db, record.id, error.error_class, str(error))
            raise

    def _copy(
        self, run: ActiveRun, model_path: str, store: SnapshotStore, *, may_be_late: bool
    ) -> tuple[Admitted, datetime]:
        clock = CopyClock(run, self._shop.stopping, may_be_late=may_be_late)
        base = self._shop.base_of(run)
        with run.output.borrow() as workspace:
            try:
                return admit(workspace, model_path, base, store, AdmissionLimits(), clock), clock.copied_at
            except (Stopped, RequestError):
                raise
            except Exception as error:
                logger.exception("an admission of {} fell over", run.run_id)
                raise blamed(error, base, self._shop.home.snapshots, clock) from error
