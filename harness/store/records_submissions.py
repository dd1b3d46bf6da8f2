"""Submissions: the quota at the door, the durable queue, and how each one ends."""

from __future__ import annotations

from datetime import datetime

from harness.domain.specs import RunPlan
from harness.errors import ErrorClass
from harness.store.database import Database, WritableDatabase
from harness.store.models import NewSubmission, Quota, SubmissionRecord

# Rejected attempts cost no quota; this many times the quota of them is a flood.
MAX_REJECTED_FACTOR = 10


def quota_of(plan: RunPlan) -> Quota:
    """A run's quota; the paper protocol has none but the cap on rejected attempts."""
    raise NotImplementedError


def new_submission(db: WritableDatabase, request: NewSubmission, quota: Quota) -> SubmissionRecord:
    """A new submission in state `admitting`, counted atomically.

    Raises:
        NotFound: no such run.
        Unready: its clock has not started (error class `run_not_started`).
        RunEnded: its agent part is over, or `submitted_at` is past the deadline.
        OverQuota: with `retry_after_s` where waiting helps.
    """
    raise NotImplementedError


def mark_admitted(
    db: WritableDatabase, submission_id: int, tree_hash: str, *, copied_at: datetime, note: str | None = None
) -> SubmissionRecord:
    """The submission in state `queued`.

    Raises:
        RunEnded: `copied_at` is past the deadline; the submission is rejected.
        Conflict: the same bytes are queued or being scored in this run (`submission_id`: their number); rejected.
    """
    raise NotImplementedError


def reject_submission(
    db: WritableDatabase, submission_id: int, error_class: ErrorClass, detail: str
) -> SubmissionRecord:
    """The submission in state `rejected`; it uses no quota."""
    raise NotImplementedError


def mark_scoring(db: WritableDatabase, submission_id: int) -> SubmissionRecord:
    """The submission in state `scoring`, with one attempt more. Raises Conflict if it is not queued."""
    raise NotImplementedError


def mark_scored(
    db: WritableDatabase, submission_id: int, evaluation_id: int, note: str | None = None
) -> SubmissionRecord:
    """The submission in state `scored`, linked to its evaluation (`note` is added to what there is)."""
    raise NotImplementedError


def mark_failed(db: WritableDatabase, submission_id: int, error_class: ErrorClass, detail: str) -> SubmissionRecord:
    """The submission in state `failed`: no score, and never 0. `detail` may hold the engine's own words."""
    raise NotImplementedError


def mark_requeued(db: WritableDatabase, submission_id: int) -> SubmissionRecord:
    """A submission that was being scored, queued again (its attempts stay counted)."""
    raise NotImplementedError


def requeue_all_scoring(db: WritableDatabase) -> int:
    """After a restart: every submission and baseline in state `scoring` of an open run is queued again; how many."""
    raise NotImplementedError


def requeue_failed(db: WritableDatabase, run_id: str) -> int:
    """Submissions and baseline of an open run that failed by the grader's own trouble, queued again; how many."""
    raise NotImplementedError


def next_queued(db: Database, run_id: str) -> SubmissionRecord | None:
    """The oldest queued submission of the run."""
    raise NotImplementedError


def admitting_submissions(db: Database, run_id: str) -> tuple[SubmissionRecord, ...]:
    """Submissions whose copy was not complete, oldest first."""
    raise NotImplementedError


def submissions_of(db: Database, run_id: str) -> tuple[SubmissionRecord, ...]:
    """Every submission of the run, by number."""
    raise NotImplementedError


def get_submission(db: Database, submission_id: int) -> SubmissionRecord:
    """One submission by its global id. Raises NotFound."""
    raise NotImplementedError


def get_submission_by_number(db: Database, run_id: str, number: int) -> SubmissionRecord:
    """One submission as the agent names it. Raises NotFound."""
    raise NotImplementedError


def queue_position(db: Database, submission: SubmissionRecord) -> int | None:
    """How many of its run are before it (0: next, or being scored); None if it is not waiting."""
    raise NotImplementedError


def count_in_state(db: Database, *states: str, run_id: str | None = None) -> int:
    """How many submissions are in one of these states, in one run or in all open runs."""
    raise NotImplementedError
