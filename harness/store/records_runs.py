"""Runs: registration, phases, clock, events, and the close that decides verdict and headline."""

from __future__ import annotations

from datetime import datetime

from harness.domain.admin import CloseRun, EventIn, FinishRun, RegisterRun, ResourceSampleIn, SetPhase, StartClock
from harness.store.database import Database, WritableDatabase
from harness.store.models import EventRecord, RunRecord


def register_run(db: WritableDatabase, request: RegisterRun) -> RunRecord:
    """The run, new or as it is; for a known id owner, token and subnet are renewed.

    Raises:
        Conflict: the id is taken by another plan.
    """
    raise NotImplementedError


def set_phase(db: WritableDatabase, run_id: str, request: SetPhase) -> RunRecord:
    """The run in its new phase, with its new owner. Raises NotFound; Conflict if the run is closed."""
    raise NotImplementedError


def start_clock(db: WritableDatabase, run_id: str, request: StartClock) -> RunRecord:
    """The run with its deadline set; `started_at` keeps its first value. Raises NotFound, Conflict."""
    raise NotImplementedError


def add_event(db: WritableDatabase, run_id: str, request: EventIn, at: datetime | None = None) -> None:
    """Keeps one event (also of a closed run). Raises NotFound."""
    raise NotImplementedError


def add_sample(db: WritableDatabase, run_id: str, request: ResourceSampleIn, at: datetime | None = None) -> None:
    """Keeps one resource sample. Raises NotFound."""
    raise NotImplementedError


def finish_run(db: WritableDatabase, run_id: str, request: FinishRun, at: datetime | None = None) -> RunRecord:
    """The run with its agent part over; the first call's answer stays. Raises NotFound."""
    raise NotImplementedError


def close_run(db: WritableDatabase, run_id: str, request: CloseRun, at: datetime | None = None) -> RunRecord:
    """The run with verdict and headline decided and stored; idempotent. Raises NotFound.

    Open submissions stay open where the verdict is `interrupted` (resume scores them); otherwise they become failed.
    """
    raise NotImplementedError


def reopen_run(db: WritableDatabase, run_id: str) -> RunRecord:
    """A run that a person stopped, active again. Raises NotFound; Conflict for any other closed run."""
    raise NotImplementedError


def get_run(db: Database, run_id: str) -> RunRecord:
    """One run. Raises NotFound."""
    raise NotImplementedError


def find_run_by_token(db: Database, token_sha256: str) -> RunRecord | None:
    """The run with this token, if any."""
    raise NotImplementedError


def list_runs(db: Database, *, active_only: bool = False) -> tuple[RunRecord, ...]:
    """All runs, oldest first; `active_only`: those without a verdict."""
    raise NotImplementedError


def list_events(db: Database, run_id: str) -> tuple[EventRecord, ...]:
    """A run's events in order."""
    raise NotImplementedError
