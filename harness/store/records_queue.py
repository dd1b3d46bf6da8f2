"""The durable queue as it is read and repaired: what waits, what a restart or a person puts back."""

from __future__ import annotations

from sqlalchemy import update
from sqlmodel import Session, col, func, select

from harness.domain.runs import SubmissionState
from harness.errors import ErrorClass, NotFound
from harness.store.database import Database, WritableDatabase
from harness.store.models import SubmissionRecord
from harness.store.selection import require_open_run, require_submission, submissions_in, with_scores
from harness.store.tables import BaselineRow, RunRow, SubmissionRow

WAITING = (SubmissionState.QUEUED, SubmissionState.SCORING)
# Failures that were the grader's own trouble: worth another attempt, and never held against the agent.
GRADER_FAILURES = (ErrorClass.GRADER_TROUBLE, ErrorClass.EVALUATION_FAILED)


def requeue_all_scoring(db: WritableDatabase) -> int:
    """After a restart: every submission and baseline in state `scoring` of an open run is queued again; how many."""
    is_open = col(RunRow.verdict).is_(None)
    open_runs = select(RunRow.run_id).where(is_open).scalar_subquery()
    queued, scoring = SubmissionState.QUEUED.value, SubmissionState.SCORING.value

    def work(session: Session) -> int:
        submissions = session.execute(
            update(SubmissionRow)
            .where(col(SubmissionRow.state) == scoring, col(SubmissionRow.run_id).in_(open_runs))
            .values(state=queued, scoring_at=None)
        )
        baselines = session.execute(
            update(BaselineRow)
            .where(col(BaselineRow.state) == scoring, col(BaselineRow.run_id).in_(open_runs))
            .values(state=queued)
        )
        return _count(submissions) + _count(baselines)

    return db.write(work)


def requeue_failed(db: WritableDatabase, run_id: str) -> int:
    """Submissions and baseline of an open run that failed by the grader's own trouble, queued anew; how many.

    Raises:
        NotFound: no such run.
        Conflict: the run is closed.
    """
    queued, failed = SubmissionState.QUEUED.value, SubmissionState.FAILED.value

    def work(session: Session) -> int:
        require_open_run(session, run_id)
        submissions = session.execute(
            update(SubmissionRow)
            .where(col(SubmissionRow.run_id) == run_id, col(SubmissionRow.state) == failed)
            .where(col(SubmissionRow.error_class).in_(GRADER_FAILURES), col(SubmissionRow.tree_hash).is_not(None))
            .values(state=queued, error_class=None, detail=None, ended_at=None, scoring_at=None, attempts=0)
        )
        baselines = session.execute(
            update(BaselineRow)
            .where(col(BaselineRow.run_id) == run_id, col(BaselineRow.state) == failed)
            .values(state=queued, detail=None, ended_at=None, attempts=0)
        )
        return _count(submissions) + _count(baselines)

    return db.write(work)


def _count(result: object) -> int:
    return int(getattr(result, "rowcount", 0))


def next_queued(db: Database, run_id: str) -> SubmissionRecord | None:
    """The oldest queued submission of the run."""

    def work(session: Session) -> SubmissionRecord | None:
        row = session.exec(
            select(SubmissionRow)
            .where(SubmissionRow.run_id == run_id, SubmissionRow.state == SubmissionState.QUEUED)
            .order_by(col(SubmissionRow.number))
        ).first()
        return with_scores(session, row) if row else None

    return db.read(work)


def submissions_of(db: Database, run_id: str) -> tuple[SubmissionRecord, ...]:
    """Every submission of the run, by number."""
    return db.read(lambda session: submissions_in(session, run_id))


def tree_hashes_of(db: Database, run_id: str) -> frozenset[str]:
    """What a run has handed in, as far as it was copied, whether or not it was taken."""
    rows = select(SubmissionRow.tree_hash).where(SubmissionRow.run_id == run_id)
    return db.read(lambda session: frozenset(found for found in session.exec(rows) if found is not None))


def admitting_submissions(db: Database, run_id: str) -> tuple[SubmissionRecord, ...]:
    """Submissions whose copy was not complete, oldest first."""
    return tuple(s for s in submissions_of(db, run_id) if s.state is SubmissionState.ADMITTING)


def get_submission(db: Database, submission_id: int) -> SubmissionRecord:
    """One submission by its global id. Raises NotFound."""
    return db.read(lambda session: with_scores(session, require_submission(session, submission_id)))


def get_submission_by_number(db: Database, run_id: str, number: int) -> SubmissionRecord:
    """One submission as the agent names it. Raises NotFound."""

    def work(session: Session) -> SubmissionRecord:
        row = session.exec(
            select(SubmissionRow).where(SubmissionRow.run_id == run_id, SubmissionRow.number == number)
        ).one_or_none()
        if row is None:
            raise NotFound(f"no submission {number} in this run", "`GET submissions` lists those there are.")
        return with_scores(session, row)

    return db.read(work)


def queue_position(db: Database, submission: SubmissionRecord) -> int | None:
    """How many of its run are before it (0: next, or being scored); None if it is not waiting."""
    if submission.state is SubmissionState.SCORING:
        return 0
    if submission.state is not SubmissionState.QUEUED:
        return None
    earlier = select(func.count()).where(
        col(SubmissionRow.run_id) == submission.run_id,
        col(SubmissionRow.state).in_(WAITING),
        col(SubmissionRow.number) < submission.number,
    )
    return db.read(lambda session: session.exec(earlier).one())


def count_in_state(db: Database, *states: str, run_id: str | None = None) -> int:
    """How many submissions are in one of these states, in one run or in all open runs."""
    counted = (
        select(func.count())
        .select_from(SubmissionRow)
        .join(RunRow, col(RunRow.run_id) == col(SubmissionRow.run_id))
        .where(col(SubmissionRow.state).in_(states))
    )
    here = counted.where(col(RunRow.verdict).is_(None)) if run_id is None else counted.where(RunRow.run_id == run_id)
    return db.read(lambda session: session.exec(here).one())
