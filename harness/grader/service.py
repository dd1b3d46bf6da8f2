"""The grader as a whole: its parts put together, and what a start has to take up from the database."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from loguru import logger

from harness.domain.base import now_utc
from harness.errors import NotFound
from harness.grader.evaluate import Services
from harness.grader.fair_pool import FairPool
from harness.grader.intake import Intake
from harness.grader.queue import Workers
from harness.grader.registry import ActiveRun, Registry
from harness.grader.snapshots import SnapshotStore
from harness.grader.validation import Validation
from harness.grader.waiters import Waiters
from harness.grader.workshop import Workshop
from harness.home import Home
from harness.inference.client import InferenceClient
from harness.scorer.client import ScorerClient
from harness.store.database import WritableDatabase
from harness.store.records_queue import requeue_all_scoring, submissions_of
from harness.store.records_runs import list_runs

STORE_THREADS = 8
READ_THREADS, READ_THREADS_PER_RUN = 4, 1
SOCKET_NAME = "s.sock"

T = TypeVar("T")


class Grader:
    """Everything that the two applications and the descriptor listener share."""

    def __init__(self, shop: Workshop, image: str = "") -> None:
        self.shop = shop
        self.image = image
        self.boot_id = secrets.token_hex(8)
        self.started_at = now_utc()
        self.registry = Registry()
        self.workers = Workers(shop)
        self.intake = Intake(shop, self.workers)
        self.validation = Validation(shop.home, self.intake, self.workers)
        self._threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="store")
        self._reading = FairPool(READ_THREADS, READ_THREADS_PER_RUN, "reading")

    @property
    def home(self) -> Home:
        return self.shop.home

    @property
    def db(self) -> WritableDatabase:
        return self.shop.db

    @property
    def waiters(self) -> Waiters:
        return self.shop.waiters

    def take_up(self) -> None:
        """Takes up what a process before this one left: its active runs and their queues."""
        SnapshotStore(self.home.snapshots).clean()
        self.validation.clean()
        requeued = requeue_all_scoring(self.db)
        for record in list_runs(self.db, active_only=True):
            run = self.registry.put(record)
            times = [s.submitted_at for s in submissions_of(self.db, run.run_id)]
            run.last_submit_at = max(times, default=None)
            self.shop.refresh_queue_length(run)
            self.workers.wake(run)
            self.intake.examine_missed(run)
        logger.info("{} active runs, {} evaluations queued again", len(self.registry.all()), requeued)

    def active(self, run_id: str) -> ActiveRun:
        """Raises: NotFound if no such run is active."""
        run = self.registry.find(run_id)
        if run is None:
            raise NotFound(f"no active run {run_id}", "`harness list` shows the runs there are.")
        return run

    async def in_thread(self, work: Callable[..., T], *args: object) -> T:
        """The result of `work`, which may wait for the database, without holding up the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args))

    async def in_turn(self, run: ActiveRun, work: Callable[[], T]) -> T:
        """The result of `work`, of which a run has one at a time: asking much keeps no other run waiting."""
        return await asyncio.wrap_future(self._reading.submit(run.run_id, work))

    def stop(self) -> None:
        """Answers whoever waits, and lets workers end; what is unfinished is taken up by the next process."""
        self.shop.stopping.set()
        self.waiters.stop()
        self.workers.stop()


def socket_services(home: Home) -> Callable[[ActiveRun], Services]:
    """How a run's services are reached: over their sockets below the home."""

    def connect(run: ActiveRun) -> Services:
        return Services(
            InferenceClient(home.inference_dir(run.run_id) / SOCKET_NAME),
            ScorerClient(home.scorer_dir(run.run_id) / SOCKET_NAME),
        )

    return connect


def open_grader(home: Home, db: WritableDatabase, image: str = "", service_root: Path = Path("/")) -> Grader:
    """The grader of `home` on its real services."""
    return Grader(Workshop(home, db, Waiters(), socket_services(home), service_root), image)
