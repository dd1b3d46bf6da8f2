"""The durable queue repaired: what a restart of the grader, or a person, puts back."""

from __future__ import annotations

from sqlalchemy import update
from sqlmodel import Session, col, select

from harness.domain.runs import SubmissionState
from harness.errors import ErrorClass
from harness.store.database import WritableDatabase
from harness.store.selection import require_open_run
from harness.store.tables import BaselineRow, RunRow, SubmissionRow

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
    """Submissions and baseline of an open run that failed by the grader's own trouble, queued again; how many.

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
            .values(state=queued, error_class=None, detail=None, ended_at=None, scoring_at=None)
        )
        baselines = session.execute(
            update(BaselineRow)
            .where(col(BaselineRow.run_id) == run_id, col(BaselineRow.state) == failed)
            .values(state=queued, detail=None, ended_at=None)
        )
        return _count(submissions) + _count(baselines)

    return db.write(work)


def _count(result: object) -> int:
    return int(getattr(result, "rowcount", 0))
