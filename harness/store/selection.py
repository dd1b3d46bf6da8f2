"""Reads that several transactions share; each takes the session of the one it is part of."""

from __future__ import annotations

from sqlmodel import Session, col, select

from harness.domain.runs import Verdict
from harness.errors import Conflict, NotFound
from harness.store.mapping import item_record, submission_record
from harness.store.models import ItemScore, SubmissionRecord
from harness.store.tables import EvaluationRow, ItemScoreRow, RunRow, SubmissionRow


def require_run(session: Session, run_id: str) -> RunRow:
    """The run's row. Raises NotFound."""
    row = session.get(RunRow, run_id)
    if row is None:
        raise NotFound(f"no run {run_id}", "`harness list` shows the runs there are.")
    return row


def require_open_run(session: Session, run_id: str) -> RunRow:
    """The row of a run without a verdict. Raises NotFound; Conflict if it is closed."""
    row = require_run(session, run_id)
    if row.verdict is not None:
        hint = "`harness resume` takes it up again." if row.verdict == Verdict.INTERRUPTED else "Start a new run."
        raise Conflict(f"run {run_id} is closed ({row.verdict})", hint)
    return row


def require_submission(session: Session, submission_id: int) -> SubmissionRow:
    """The submission's row by its global id. Raises NotFound."""
    row = session.get(SubmissionRow, submission_id)
    if row is None:
        raise NotFound(f"no submission with id {submission_id}", "Use a number that `/submissions` lists.")
    return row


def with_scores(session: Session, row: SubmissionRow) -> SubmissionRecord:
    """The record of a row as it stands in this transaction."""
    session.flush()
    evaluation = session.get(EvaluationRow, row.evaluation_id) if row.evaluation_id is not None else None
    return submission_record(row, evaluation)


def submissions_in(session: Session, run_id: str) -> tuple[SubmissionRecord, ...]:
    """Every submission of a run, by number."""
    joined = (
        select(SubmissionRow, EvaluationRow)
        .join(EvaluationRow, col(EvaluationRow.id) == col(SubmissionRow.evaluation_id), isouter=True)
        .where(SubmissionRow.run_id == run_id)
        .order_by(col(SubmissionRow.number))
    )
    return tuple(submission_record(row, evaluation) for row, evaluation in session.exec(joined))


def items_in(session: Session, evaluation_id: int) -> tuple[ItemScore, ...]:
    """Items of an evaluation, by item id."""
    rows = select(ItemScoreRow).where(ItemScoreRow.evaluation_id == evaluation_id).order_by(col(ItemScoreRow.item_id))
    return tuple(item_record(row) for row in session.exec(rows))
