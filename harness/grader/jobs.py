"""What a run's worker scores: the baseline or one submission, each with its life in the database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.domain.runs import SubmissionState
from harness.domain.specs import RunPlan
from harness.errors import ErrorClass
from harness.grader.admission import snapshot_key
from harness.grader.base_model import BaseModelInfo
from harness.grader.registry import ActiveRun
from harness.store.database import WritableDatabase
from harness.store.models import SubmissionRecord
from harness.store.records_evaluations import (
    fail_baseline,
    get_baseline,
    mark_baseline_scoring,
    requeue_baseline,
    set_baseline,
)
from harness.store.records_queue import next_queued, submissions_of
from harness.store.records_submissions import mark_failed, mark_requeued, mark_scored, mark_scoring, reject_submission


class Job(Protocol):
    """One thing to score. `folder` is relative to the harness home."""

    @property
    def name(self) -> str: ...
    @property
    def tree_hash(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    def begin(self) -> None: ...
    def done(self, evaluation_id: int, *, is_cached: bool) -> None: ...
    def again(self) -> None: ...
    def fail(self, error_class: ErrorClass, detail: str) -> None: ...


@dataclass(frozen=True)
class BaselineJob:
    """The unmodified base model."""

    db: WritableDatabase
    run_id: str
    plan: RunPlan

    @property
    def name(self) -> str:
        return "baseline"

    @property
    def tree_hash(self) -> str:
        return self.plan.model.tree_hash

    @property
    def folder(self) -> Path:
        return self.plan.model.path

    def begin(self) -> None:
        mark_baseline_scoring(self.db, self.run_id)

    def done(self, evaluation_id: int, *, is_cached: bool) -> None:
        set_baseline(self.db, self.run_id, evaluation_id, is_cached=is_cached)

    def again(self) -> None:
        requeue_baseline(self.db, self.run_id)

    def fail(self, error_class: ErrorClass, detail: str) -> None:
        fail_baseline(self.db, self.run_id, f"{error_class}: {detail}")


@dataclass(frozen=True)
class SubmissionJob:
    """A snapshot that an agent handed in."""

    db: WritableDatabase
    record: SubmissionRecord
    folder: Path

    @property
    def name(self) -> str:
        return f"submission {self.record.number}"

    @property
    def tree_hash(self) -> str:
        return self.record.tree_hash or ""

    def begin(self) -> None:
        mark_scoring(self.db, self.record.id)

    def done(self, evaluation_id: int, *, is_cached: bool) -> None:
        mark_scored(self.db, self.record.id, evaluation_id, self._note())

    def again(self) -> None:
        mark_requeued(self.db, self.record.id)

    def fail(self, error_class: ErrorClass, detail: str) -> None:
        mark_failed(self.db, self.record.id, error_class, detail)

    def refuse(self, error_class: ErrorClass, detail: str) -> None:
        reject_submission(self.db, self.record.id, error_class, detail)

    def _note(self) -> str | None:
        # Of this run only: nobody is told that somebody else handed in the same.
        for other in submissions_of(self.db, self.record.run_id):
            if other.number < self.record.number and other.tree_hash == self.tree_hash and other.scores is not None:
                return f"the same bytes as submission {other.number}: its stored result"
        return None


def next_job(db: WritableDatabase, run: ActiveRun, base: BaseModelInfo) -> Job | None:
    """What the run's worker should score now: the baseline before submissions, those in their order."""
    baseline = get_baseline(db, run.run_id)
    if baseline is not None and baseline.state is SubmissionState.QUEUED:
        return BaselineJob(db, run.run_id, run.plan)
    record = next_queued(db, run.run_id)
    if record is None or record.tree_hash is None:
        return None
    return SubmissionJob(db, record, Path("snapshots") / snapshot_key(record.tree_hash, base))


def requeue_orphans(db: WritableDatabase, run_id: str) -> None:
    """Puts back what a worker before this one left in state `scoring`: a run has one worker at a time."""
    baseline = get_baseline(db, run_id)
    if baseline is not None and baseline.state is SubmissionState.SCORING:
        requeue_baseline(db, run_id)
    for record in submissions_of(db, run_id):
        if record.state is SubmissionState.SCORING:
            mark_requeued(db, record.id)
