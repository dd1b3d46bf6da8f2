"""What the grader holds in memory of its active runs, so that an answer about time or health needs nothing else."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from harness.domain.specs import RunPlan
from harness.errors import ErrorClass, NotFound, OverQuota, Unready
from harness.grader.base_model import BaseModelInfo
from harness.grader.lineage_findings import Relatives
from harness.store.models import RunRecord

MAX_OPEN_REQUESTS = 8
RETRY_AFTER_S = 2.0


class OutputDirectory:
    """An open descriptor of a run's workspace; borrowed as a duplicate, so that closing it never hits a reader."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor: int | None = None

    @property
    def is_there(self) -> bool:
        return self._descriptor is not None

    def replace(self, descriptor: int | None) -> None:
        """Owns `descriptor` from now on and closes the one before it."""
        with self._lock:
            before, self._descriptor = self._descriptor, descriptor
        if before is not None:
            os.close(before)

    @contextmanager
    def borrow(self) -> Iterator[int]:
        """A descriptor for the length of the block.

        Raises:
            Unready: the harness has not handed one over (again).
        """
        with self._lock:
            copy = None if self._descriptor is None else os.dup(self._descriptor)
        if copy is None:
            raise Unready(
                "the grader does not see this run's workspace at the moment",
                "Try again in a few seconds.",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            yield copy
        finally:
            os.close(copy)


class Gate:
    """At most so many requests of one run inside at a time. Used on one event loop, so it needs no lock."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside = 0

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Raises: OverQuota if it is full."""
        if self._inside >= self._limit:
            raise OverQuota(
                f"{self._limit} requests of this run are open already",
                "Wait for one to be answered, or submit with ?wait=false and look at /submissions.",
                error_class=ErrorClass.TOO_MANY_REQUESTS,
                retry_after_s=RETRY_AFTER_S,
            )
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1


@dataclass
class ActiveRun:
    """One run that is not closed. Fields are replaced whole, so a reader never needs a lock."""

    run_id: str
    plan: RunPlan
    token_sha256: str
    network: IPv4Network | IPv6Network | None
    started_at: datetime | None = None
    deadline: datetime | None = None
    is_over: bool = False
    last_submit_at: datetime | None = None
    base: BaseModelInfo | None = None
    relatives: Relatives | None = None
    needs_services: bool = False
    service_uses: int = 0
    queue_length: int = 0
    output: OutputDirectory = field(default_factory=OutputDirectory)
    closed: threading.Event = field(default_factory=threading.Event)
    submits: Gate = field(default_factory=lambda: Gate(MAX_OPEN_REQUESTS))
    reads: Gate = field(default_factory=lambda: Gate(MAX_OPEN_REQUESTS))
    validations: Gate = field(default_factory=lambda: Gate(1))

    def admits(self, address: str) -> bool:
        """Whether a client at `address` is in the run's own network."""
        try:
            return self.network is not None and ip_address(address) in self.network
        except ValueError:
            return False

    def update(self, record: RunRecord) -> None:
        """Takes over what the database says now."""
        self.token_sha256 = record.token_sha256
        self.network = ip_network(record.subnet) if record.subnet else None
        self.started_at, self.deadline = record.started_at, record.deadline
        self.is_over = record.agent_ended_at is not None


class Registry:
    """The active runs, found by id or by the hash of their token."""

    def __init__(self, records: Sequence[RunRecord] = ()) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, ActiveRun] = {}
        self._by_token: dict[str, ActiveRun] = {}
        for record in records:
            self.put(record)

    def put(self, record: RunRecord) -> ActiveRun:
        """The active run of `record`, new or brought up to date."""
        with self._lock:
            run = self._runs.get(record.run_id)
            if run is None:
                run = ActiveRun(record.run_id, record.plan, record.token_sha256, None)
            run.update(record)
            self._runs = {**self._runs, record.run_id: run}
            self._by_token = {r.token_sha256: r for r in self._runs.values() if r.token_sha256}
            return run

    def remove(self, run_id: str) -> None:
        """Forgets a run that was closed, and lets go of its workspace."""
        with self._lock:
            run = self._runs.get(run_id)
            self._runs = {k: v for k, v in self._runs.items() if k != run_id}
            self._by_token = {r.token_sha256: r for r in self._runs.values() if r.token_sha256}
        if run is not None:
            run.closed.set()
            run.output.replace(None)

    def find(self, run_id: str) -> ActiveRun | None:
        return self._runs.get(run_id)

    def all(self) -> tuple[ActiveRun, ...]:
        return tuple(self._runs.values())

    def authorised(self, token: str, address: str) -> ActiveRun:
        """The run whose token this is, asked from its own network.

        Raises:
            NotFound: anything else; one and the same answer, so that nothing can be learnt from it.
        """
        run = self._by_token.get(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest())
        if run is None or not run.admits(address):
            raise no_such_address()
        return run


def no_such_address() -> NotFound:
    """What every unknown address answers."""
    return NotFound("there is nothing at this address", "Use the address in GRADING_SERVER_URL as it is.")
