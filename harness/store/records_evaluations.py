"""Evaluations by key (the cache), their item scores, and each run's baseline."""

from __future__ import annotations

from harness.store.database import Database, WritableDatabase
from harness.store.models import BaselineRecord, EvaluationKey, EvaluationRecord, ItemScore, NewEvaluation


def find_evaluation(db: Database, key: EvaluationKey) -> EvaluationRecord | None:
    """The evaluation made here under this key; imported ones never serve as a cache."""
    raise NotImplementedError


def get_evaluation(db: Database, evaluation_id: int) -> EvaluationRecord:
    """One evaluation. Raises NotFound."""
    raise NotImplementedError


def save_evaluation(db: WritableDatabase, evaluation: NewEvaluation) -> EvaluationRecord:
    """The stored evaluation with all its items; the first one under a key stays.

    Raises:
        ValueError: no items, an item twice, no final item, or a score outside [0, 1].
    """
    raise NotImplementedError


def item_scores(db: Database, evaluation_id: int) -> tuple[ItemScore, ...]:
    """Items of an evaluation, by item id."""
    raise NotImplementedError


def request_baseline(db: WritableDatabase, run_id: str) -> BaselineRecord:
    """The run's baseline: scored at once if the cache has it, else queued; a failed one is queued again. Idempotent."""
    raise NotImplementedError


def get_baseline(db: Database, run_id: str) -> BaselineRecord | None:
    """The run's baseline, None before it was asked for."""
    raise NotImplementedError


def mark_baseline_scoring(db: WritableDatabase, run_id: str) -> BaselineRecord:
    """The baseline in state `scoring`, with one attempt more."""
    raise NotImplementedError


def set_baseline(db: WritableDatabase, run_id: str, evaluation_id: int) -> BaselineRecord:
    """The baseline in state `scored`, linked to its evaluation."""
    raise NotImplementedError


def fail_baseline(db: WritableDatabase, run_id: str, detail: str) -> BaselineRecord:
    """The baseline in state `failed`."""
    raise NotImplementedError


def requeue_baseline(db: WritableDatabase, run_id: str) -> BaselineRecord:
    """The baseline in state `queued` again, for another attempt."""
    raise NotImplementedError
