"""Evaluations by key (the cache), their item scores, and each run's baseline."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import insert
from sqlmodel import Session, col, func, select

from harness.domain.base import now_utc
from harness.domain.runs import SubmissionState
from harness.errors import Conflict, NotFound
from harness.store.columns import MAX_DETAIL_CHARACTERS
from harness.store.database import Database, WritableDatabase
from harness.store.headline import metrics_of, score_parts
from harness.store.mapping import baseline_record, evaluation_record, run_record, set_score
from harness.store.models import BaselineRecord, EvaluationKey, EvaluationRecord, ItemScore, NewEvaluation, PartScores
from harness.store.selection import items_in, require_open_run
from harness.store.tables import BaselineRow, EvaluationRow, ItemScoreRow

MADE_HERE = ""
# Origins of what was scored anew; the first evaluation under a key stays the one that serves as the cache.
REPEAT_PREFIX = "repeat-"
WAITING = (SubmissionState.QUEUED, SubmissionState.SCORING)


def find_in(session: Session, key: EvaluationKey, origin: str = MADE_HERE) -> EvaluationRow | None:
    """The row under this key and origin."""
    wanted = {"task_protocol": key.task_protocol, "engine_hash": key.engine_hash, "tree_hash": key.tree_hash}
    return session.exec(
        select(EvaluationRow).filter_by(**wanted, base_model_hash=key.base_model_hash, origin=origin)
    ).one_or_none()


def find_evaluation(db: Database, key: EvaluationKey) -> EvaluationRecord | None:
    """The evaluation made here under this key; imported ones never serve as a cache."""

    def work(session: Session) -> EvaluationRecord | None:
        row = find_in(session, key)
        return evaluation_record(row) if row else None

    return db.read(work)


def get_evaluation(db: Database, evaluation_id: int) -> EvaluationRecord:
    """One evaluation. Raises NotFound."""

    def work(session: Session) -> EvaluationRecord:
        row = session.get(EvaluationRow, evaluation_id)
        if row is None:
            raise NotFound(f"no evaluation {evaluation_id}", "The record may belong to another database.")
        return evaluation_record(row)

    return db.read(work)


def evaluation_row(evaluation: NewEvaluation, scores: PartScores, origin: str = MADE_HERE) -> EvaluationRow:
    """A row with these scores; its rates are computed from the items."""
    metrics = metrics_of(evaluation.items)
    row = EvaluationRow(
        **evaluation.key.model_dump(),
        origin=origin,
        feedback_items=scores.feedback.n_items if scores.feedback else None,
        final_items=scores.final.n_items,
        all_items=scores.overall.n_items,
        truncation_rate=metrics["all"]["truncation_rate"],
        extraction_failure_rate=metrics["all"]["extraction_failure_rate"],
        mean_output_tokens=metrics["all"]["mean_output_tokens"],
        metrics=metrics,
        engine=evaluation.engine.model_dump(mode="json"),
        engine_info=evaluation.engine_info,
        load_seconds=evaluation.load_seconds,
        generate_seconds=evaluation.generate_seconds,
        score_seconds=evaluation.score_seconds,
        created_at=now_utc(),
    )
    for name, score in (("feedback", scores.feedback), ("final", scores.final), ("all", scores.overall)):
        set_score(row, name, score)
    return row


def insert_evaluation(session: Session, row: EvaluationRow, items: tuple[ItemScore, ...]) -> int:
    """The id of the new evaluation; its items go in as one statement."""
    session.add(row)
    session.flush()
    assert row.id is not None
    values = [{"evaluation_id": row.id, **item.model_dump(), "part": item.part.value} for item in items]
    session.execute(insert(ItemScoreRow), values)
    return row.id


def save_evaluation(db: WritableDatabase, evaluation: NewEvaluation, *, is_anew: bool = False) -> EvaluationRecord:
    """The stored evaluation with all its items; the first one under a key stays.

    One made `is_anew` beside a first one is kept as a repeat, which is nobody's cache.

    Raises:
        ValueError: no items, an item twice, no final item, or a score outside [0, 1].
    """

    # Not in the transaction, which keeps others from writing: the first one imports SciPy.
    scores = score_parts(evaluation.items)

    def work(session: Session) -> EvaluationRecord:
        row = find_in(session, evaluation.key)
        if row is None or is_anew:
            origin = MADE_HERE if row is None else _next_repeat(session, evaluation.key)
            row = evaluation_row(evaluation, scores, origin)
            insert_evaluation(session, row, evaluation.items)
        return evaluation_record(row)

    return db.write(work)


def _next_repeat(session: Session, key: EvaluationKey) -> str:
    is_repeat = col(EvaluationRow.origin).startswith(REPEAT_PREFIX)
    count = select(func.count()).select_from(EvaluationRow).filter_by(**key.model_dump()).where(is_repeat)
    return f"{REPEAT_PREFIX}{session.exec(count).one() + 1}"


def item_scores(db: Database, evaluation_id: int) -> tuple[ItemScore, ...]:
    """Items of an evaluation, by item id."""
    return db.read(lambda session: items_in(session, evaluation_id))


def _baseline(session: Session, row: BaselineRow) -> BaselineRecord:
    session.flush()
    evaluation = session.get(EvaluationRow, row.evaluation_id) if row.evaluation_id is not None else None
    return baseline_record(row, evaluation)


def request_baseline(db: WritableDatabase, run_id: str) -> BaselineRecord:
    """The run's baseline: scored at once if the cache has it (and may serve), else queued; a failed one queued again.

    Idempotent.

    Raises:
        NotFound: no such run.
        Conflict: the run is closed.
    """

    def work(session: Session) -> BaselineRecord:
        run = require_open_run(session, run_id)
        row = session.get(BaselineRow, run_id)
        if row is None:
            row = BaselineRow(run_id=run_id, state=SubmissionState.QUEUED.value, requested_at=now_utc())
            session.add(row)
        elif row.state == SubmissionState.FAILED:
            row.state, row.detail, row.ended_at, row.attempts = SubmissionState.QUEUED.value, None, None, 0
        record = run_record(run)
        key = record.evaluation_key(record.plan.model.tree_hash)
        may_be_cached = row.state == SubmissionState.QUEUED and not record.plan.is_baseline_anew
        cached = find_in(session, key) if may_be_cached else None
        if cached is not None:
            row.state, row.evaluation_id, row.is_cached = SubmissionState.SCORED.value, cached.id, True
            row.ended_at = now_utc()
        return _baseline(session, row)

    return db.write(work)


def get_baseline(db: Database, run_id: str) -> BaselineRecord | None:
    """The run's baseline, None before it was asked for."""

    def work(session: Session) -> BaselineRecord | None:
        row = session.get(BaselineRow, run_id)
        return _baseline(session, row) if row else None

    return db.read(work)


def mark_baseline_scoring(db: WritableDatabase, run_id: str) -> BaselineRecord:
    """The baseline in state `scoring`, with one attempt more. Raises NotFound; Conflict if it is not queued."""

    def change(row: BaselineRow) -> None:
        row.state, row.attempts = SubmissionState.SCORING.value, row.attempts + 1

    return _change(db, run_id, change, SubmissionState.QUEUED)


def set_baseline(db: WritableDatabase, run_id: str, evaluation_id: int, *, is_cached: bool = False) -> BaselineRecord:
    """The baseline in state `scored`, linked to its evaluation. Raises NotFound; Conflict if it does not wait."""

    def change(row: BaselineRow) -> None:
        row.state, row.evaluation_id, row.is_cached = SubmissionState.SCORED.value, evaluation_id, is_cached
        row.detail, row.ended_at = None, now_utc()

    return _change(db, run_id, change, *WAITING)


def fail_baseline(db: WritableDatabase, run_id: str, detail: str) -> BaselineRecord:
    """The baseline in state `failed`; `detail` may hold the engine's own words. Raises NotFound, Conflict."""

    def change(row: BaselineRow) -> None:
        row.state, row.detail, row.ended_at = SubmissionState.FAILED.value, detail[:MAX_DETAIL_CHARACTERS], now_utc()

    return _change(db, run_id, change, *WAITING)


def requeue_baseline(db: WritableDatabase, run_id: str) -> BaselineRecord:
    """A baseline that was being scored, queued again (its attempts stay counted). Raises NotFound, Conflict."""

    def change(row: BaselineRow) -> None:
        row.state = SubmissionState.QUEUED.value

    return _change(db, run_id, change, SubmissionState.SCORING)


def _change(
    db: WritableDatabase, run_id: str, change: Callable[[BaselineRow], None], *allowed: SubmissionState
) -> BaselineRecord:
    def work(session: Session) -> BaselineRecord:
        row = session.get(BaselineRow, run_id)
        if row is None:
            raise NotFound(f"run {run_id} has no baseline yet", "Ask for it first: POST /runs/{id}/baseline.")
        if row.state not in allowed:
            raise Conflict(f"the baseline of {run_id} is {row.state}", "Look it up again: something has moved it on.")
        change(row)
        return _baseline(session, row)

    return db.write(work)
