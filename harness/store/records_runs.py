"""Runs: registration, phases, clock, and the lists that people and the grader read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlmodel import Session, col, select

from harness.domain.admin import EventIn, FinishRun, RegisterRun, ResourceSampleIn, SetPhase, StartClock
from harness.domain.base import now_utc
from harness.domain.runs import Phase
from harness.errors import Conflict, RunEnded
from harness.store.columns import MAX_DETAIL_CHARACTERS
from harness.store.database import Database, WritableDatabase
from harness.store.mapping import event_record, run_record, run_row
from harness.store.models import EventRecord, RunRecord
from harness.store.selection import require_open_run, require_run
from harness.store.tables import EventRow, ResourceSampleRow, RunRow


def register_run(db: WritableDatabase, request: RegisterRun) -> RunRecord:
    """The run, new or as it is; for a known id owner, token and subnet are renewed.

    Raises:
        Conflict: the id is taken by another plan.
    """
    fresh = run_row(request.plan)

    def work(session: Session) -> RunRecord:
        row = session.get(RunRow, request.plan.run_id)
        if row is None:
            row = run_row(request.plan)
            session.add(row)
        elif row.plan != fresh.plan or row.imported_at is not None:
            raise Conflict(f"run {row.run_id} is there already, with another plan", "Start a run under a new id.")
        row.owner, row.token_sha256, row.subnet = request.owner.model_dump(), request.token_sha256, request.subnet
        session.flush()
        return run_record(row)

    return db.write(work)


def _change(
    db: WritableDatabase, run_id: str, change: Callable[[RunRow], None], find: Callable[[Session, str], RunRow]
) -> RunRecord:
    def work(session: Session) -> RunRecord:
        row = find(session, run_id)
        change(row)
        session.flush()
        return run_record(row)

    return db.write(work)


def set_phase(db: WritableDatabase, run_id: str, request: SetPhase) -> RunRecord:
    """The run in its new phase, with its new owner. Raises NotFound; Conflict if the run is closed."""

    def change(row: RunRow) -> None:
        row.phase, row.owner = request.phase.value, request.owner.model_dump()

    return _change(db, run_id, change, require_open_run)


def start_clock(db: WritableDatabase, run_id: str, request: StartClock) -> RunRecord:
    """The run with its deadline set; `started_at` keeps its first value unless the request's `is_exact`.

    Raises:
        NotFound: no such run.
        Conflict: the run is closed.
        RunEnded: its agent part is over already.
    """

    def change(row: RunRow) -> None:
        if row.agent_ended_at is not None:
            raise RunEnded(f"the agent part of run {row.run_id} is over", "Close the run; `harness resume` reopens it.")
        if row.started_at is None or request.is_exact:
            row.started_at = request.started_at
        row.deadline = request.deadline

    return _change(db, run_id, change, require_open_run)


def finish_run(db: WritableDatabase, run_id: str, request: FinishRun, at: datetime | None = None) -> RunRecord:
    """The run with its agent part over; the first call's answer stays. Raises NotFound."""

    def change(row: RunRow) -> None:
        if row.agent_ended_at is None and row.verdict is None:
            row.agent_ended_at = at or now_utc()
            row.ended_by, row.exit_code, row.detail = (
                request.ended_by.value,
                request.exit_code,
                request.detail[:MAX_DETAIL_CHARACTERS],
            )
            row.phase = Phase.FINISHING.value

    return _change(db, run_id, change, require_run)


def add_event(db: WritableDatabase, run_id: str, request: EventIn, at: datetime | None = None) -> None:
    """Keeps one event (also of a closed run). Raises NotFound."""

    def work(session: Session) -> None:
        require_run(session, run_id)
        session.add(EventRow(run_id=run_id, at=at or now_utc(), kind=request.kind, detail=request.detail))

    db.write(work)


def add_sample(db: WritableDatabase, run_id: str, request: ResourceSampleIn, at: datetime | None = None) -> None:
    """Keeps one resource sample. Raises NotFound."""

    def work(session: Session) -> None:
        require_run(session, run_id)
        session.add(ResourceSampleRow(run_id=run_id, at=at or now_utc(), **request.model_dump()))

    db.write(work)


def get_run(db: Database, run_id: str) -> RunRecord:
    """One run. Raises NotFound."""
    return db.read(lambda session: run_record(require_run(session, run_id)))


def find_run_by_token(db: Database, token_sha256: str) -> RunRecord | None:
    """The run that holds the token with this hash (hex), if any."""
    if not token_sha256:
        return None

    def work(session: Session) -> RunRecord | None:
        row = session.exec(select(RunRow).where(RunRow.token_sha256 == token_sha256)).first()
        return run_record(row) if row else None

    return db.read(work)


def list_runs(db: Database, *, active_only: bool = False) -> tuple[RunRecord, ...]:
    """All runs, oldest first; `active_only`: those without a verdict."""
    rows = select(RunRow).order_by(col(RunRow.created_at), col(RunRow.run_id))
    if active_only:
        rows = rows.where(col(RunRow.verdict).is_(None))
    return db.read(lambda session: tuple(run_record(row) for row in session.exec(rows)))


def list_events(db: Database, run_id: str) -> tuple[EventRecord, ...]:
    """A run's events in order. Raises NotFound."""

    def work(session: Session) -> tuple[EventRecord, ...]:
        require_run(session, run_id)
        rows = select(EventRow).where(EventRow.run_id == run_id).order_by(col(EventRow.id))
        return tuple(event_record(row) for row in session.exec(rows))

    return db.read(work)
