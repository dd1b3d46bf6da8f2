"""Submissions: the door, the durable queue, and how each one ends. `submission_id` here is the global `id`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlmodel import Session, col, func, select

from harness.domain.base import now_utc
from harness.domain.runs import SubmissionState
from harness.errors import Conflict, ErrorClass, RunEnded, Unready
from harness.store.columns import MAX_DETAIL_CHARACTERS, MAX_PATH_CHARACTERS
from harness.store.database import WritableDatabase
from harness.store.models import NewSubmission, Quota, SubmissionRecord
from harness.store.quota import check_quota
from harness.store.records_queue import WAITING
from harness.store.selection import require_run, require_submission, with_scores
from harness.store.tables import RunRow, SubmissionRow


def new_submission(db: WritableDatabase, request: NewSubmission, quota: Quota) -> SubmissionRecord:
    """A new submission in state `admitting`, checked and counted in one transaction.

    Raises:
        NotFound: no such run.
        Unready: its clock has not started (error class `run_not_started`).
        RunEnded: its agent part is over, or `submitted_at` is past the deadline.
        OverQuota: with `retry_after_s` where waiting helps.
    """

    def work(session: Session) -> SubmissionRecord:
        run = require_run(session, request.run_id)
        _require_running(run, request.submitted_at)
        check_quota(session, request.run_id, quota, request.submitted_at)
        last = session.exec(select(func.max(SubmissionRow.number)).where(SubmissionRow.run_id == request.run_id)).one()
        row = SubmissionRow(
            run_id=request.run_id,
            number=(last or 0) + 1,
            state=SubmissionState.ADMITTING.value,
            model_path=request.model_path[:MAX_PATH_CHARACTERS],
            submitted_at=request.submitted_at,
            note=_joined(request.note, None),
        )
        session.add(row)
        return with_scores(session, row)

    return db.write(work)


def _require_running(run: RunRow, now: datetime) -> None:
    if run.verdict is not None or run.agent_ended_at is not None:
        raise RunEnded("this run has ended", "Nothing can be handed in any more.")
    if run.started_at is None or run.deadline is None:
        raise Unready(
            "this run's clock has not started",
            "Try again in a second.",
            error_class=ErrorClass.RUN_NOT_STARTED,
            retry_after_s=1.0,
        )
    if now >= run.deadline:
        raise RunEnded("the time of this run is up", "Nothing can be handed in any more.")


def mark_admitted(
    db: WritableDatabase, submission_id: int, tree_hash: str, *, copied_at: datetime, note: str | None = None
) -> SubmissionRecord:
    """The submission in state `queued`.

    Raises:
        RunEnded: its copy was complete only after the deadline; the submission is rejected.
        Conflict: the same bytes wait in this run already (`submission_id`: their number; this one is rejected), or
            the submission is not being admitted.
    """

    def work(session: Session) -> tuple[SubmissionRecord, RunEnded | Conflict | None]:
        row = _in_state(session, submission_id, SubmissionState.ADMITTING)
        run = require_run(session, row.run_id)
        refusal = _refusal(session, row, run, tree_hash, copied_at)
        row.tree_hash, row.copied_at, row.note = tree_hash, copied_at, _joined(row.note, note)
        if refusal is None:
            row.state = SubmissionState.QUEUED.value
        else:
            row.state, row.ended_at = SubmissionState.REJECTED.value, now_utc()
            row.error_class, row.detail = refusal.error_class.value, refusal.what
        return with_scores(session, row), refusal

    # Raised after the commit: the rejection must stay.
    record, refusal = db.write(work)
    if refusal is not None:
        raise refusal
    return record


def _refusal(
    session: Session, row: SubmissionRow, run: RunRow, tree_hash: str, copied_at: datetime
) -> RunEnded | Conflict | None:
    if run.deadline is not None and copied_at >= run.deadline:
        return RunEnded("the copy was complete only after the deadline", "Hand in earlier: the copy takes time.")
    twin = session.exec(
        select(SubmissionRow.number)
        .where(SubmissionRow.run_id == row.run_id, SubmissionRow.tree_hash == tree_hash)
        .where(SubmissionRow.id != row.id, col(SubmissionRow.state).in_(WAITING))
        .order_by(col(SubmissionRow.number))
    ).first()
    if twin is None:
        return None
    return Conflict(
        f"the same weights are queued already as submission {twin}",
        f"Wait for submission {twin}; this request used no quota.",
        submission_id=twin,
    )


def reject_submission(
    db: WritableDatabase, submission_id: int, error_class: ErrorClass, detail: str
) -> SubmissionRecord:
    """The submission in state `rejected`; it uses no quota. Raises NotFound; Conflict if it has ended."""

    def change(row: SubmissionRow) -> None:
        row.state, row.ended_at = SubmissionState.REJECTED.value, now_utc()
        row.error_class, row.detail = error_class.value, detail[:MAX_DETAIL_CHARACTERS]

    return _change(db, submission_id, change, SubmissionState.ADMITTING, *WAITING)


def mark_scoring(db: WritableDatabase, submission_id: int) -> SubmissionRecord:
    """The submission in state `scoring`, with one attempt more. Raises NotFound; Conflict if it is not queued."""

    def change(row: SubmissionRow) -> None:
        row.state, row.scoring_at, row.attempts = SubmissionState.SCORING.value, now_utc(), row.attempts + 1

    return _change(db, submission_id, change, SubmissionState.QUEUED)


def mark_scored(
    db: WritableDatabase, submission_id: int, evaluation_id: int, note: str | None = None
) -> SubmissionRecord:
    """The submission in state `scored`; `note` is added to what there is. Raises NotFound; Conflict if not waiting."""

    def change(row: SubmissionRow) -> None:
        row.state, row.evaluation_id, row.ended_at = SubmissionState.SCORED.value, evaluation_id, now_utc()
        row.note = _joined(row.note, note)

    return _change(db, submission_id, change, *WAITING)


def mark_failed(db: WritableDatabase, submission_id: int, error_class: ErrorClass, detail: str) -> SubmissionRecord:
    """The submission in state `failed`: no score, and never 0. `detail` may hold the engine's own words.

    Raises:
        NotFound: no such submission.
        Conflict: it has ended already.
    """

    def change(row: SubmissionRow) -> None:
        row.state, row.ended_at = SubmissionState.FAILED.value, now_utc()
        row.error_class, row.detail = error_class.value, detail[:MAX_DETAIL_CHARACTERS]

    return _change(db, submission_id, change, SubmissionState.ADMITTING, *WAITING)


def mark_requeued(db: WritableDatabase, submission_id: int) -> SubmissionRecord:
    """A submission that was being scored, queued again (its attempts stay counted). Raises NotFound, Conflict."""

    def change(row: SubmissionRow) -> None:
        row.state, row.scoring_at = SubmissionState.QUEUED.value, None

    return _change(db, submission_id, change, SubmissionState.SCORING)


def _change(
    db: WritableDatabase, submission_id: int, change: Callable[[SubmissionRow], None], *allowed: SubmissionState
) -> SubmissionRecord:
    def work(session: Session) -> SubmissionRecord:
        row = _in_state(session, submission_id, *allowed)
        change(row)
        return with_scores(session, row)

    return db.write(work)


def _in_state(session: Session, submission_id: int, *allowed: SubmissionState) -> SubmissionRow:
    row = require_submission(session, submission_id)
    if row.state not in allowed:
        raise Conflict(
            f"submission {row.number} of {row.run_id} is {row.state}, not {' or '.join(allowed)}",
            "Look it up again: something else has moved it on.",
        )
    return row


def _joined(first: str | None, second: str | None) -> str | None:
    return "; ".join(text for text in (first, second) if text)[:MAX_DETAIL_CHARACTERS] or None
