"""A run's rows as one document, and that document as a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from sqlmodel import Session, SQLModel, col, select

from harness.store.database import Database
from harness.store.exported import (
    ExportedArtifact,
    ExportedBaseline,
    ExportedEvaluation,
    ExportedEvent,
    ExportedFinding,
    ExportedLlmCall,
    ExportedRun,
    ExportedSample,
    ExportedSubmission,
    RunExport,
)
from harness.store.mapping import evaluation_record, run_record
from harness.store.selection import items_in, require_run
from harness.store.tables import (
    ArtifactRow,
    BaselineRow,
    EvaluationRow,
    EventRow,
    FindingRow,
    LlmCallRow,
    ResourceSampleRow,
    RunRow,
    SubmissionRow,
)

RECORD_FILE = "record.json"

M = TypeVar("M", bound=BaseModel)
Table = type[EventRow] | type[ResourceSampleRow] | type[LlmCallRow] | type[FindingRow]


def export_run(db: Database, run_id: str) -> RunExport:
    """Every row of the run, open or closed. Raises NotFound."""
    return db.read(lambda session: export_in(session, run_id))


def export_in(session: Session, run_id: str) -> RunExport:
    """`export_run` inside a transaction."""
    run = require_run(session, run_id)
    submissions = session.exec(
        select(SubmissionRow).where(SubmissionRow.run_id == run_id).order_by(col(SubmissionRow.number))
    ).all()
    baseline = session.get(BaselineRow, run_id)
    ids = {s.evaluation_id for s in submissions} | ({baseline.evaluation_id} if baseline else set())
    evaluations = _evaluations(session, {i for i in ids if i is not None})
    place = {row.id: index for index, row in enumerate(evaluations)}
    artifacts = select(ArtifactRow).where(ArtifactRow.run_id == run_id).order_by(col(ArtifactRow.path))
    return RunExport(
        run_id=run_id,
        run=_run(run),
        baseline=_like(ExportedBaseline, baseline, evaluation=place.get(baseline.evaluation_id)) if baseline else None,
        submissions=tuple(_like(ExportedSubmission, s, evaluation=place.get(s.evaluation_id)) for s in submissions),
        evaluations=tuple(_evaluation(session, row) for row in evaluations),
        events=_rows_of(session, EventRow, ExportedEvent, run_id),
        resource_samples=_rows_of(session, ResourceSampleRow, ExportedSample, run_id),
        llm_calls=_rows_of(session, LlmCallRow, ExportedLlmCall, run_id),
        findings=_rows_of(session, FindingRow, ExportedFinding, run_id),
        artifacts=tuple(_like(ExportedArtifact, row) for row in session.exec(artifacts)),
    )


def _like(model: type[M], row: SQLModel, **more: object) -> M:
    """A model from the row's columns of the same names."""
    same = {name: getattr(row, name) for name in model.model_fields if name not in more}
    return model.model_validate({**same, **more})


def _rows_of(session: Session, table: Table, model: type[M], run_id: str) -> tuple[M, ...]:
    rows = session.exec(select(table).where(col(table.run_id) == run_id).order_by(col(table.id)))
    return tuple(_like(model, row) for row in rows)


def _run(row: RunRow) -> ExportedRun:
    record = run_record(row)
    return ExportedRun.model_validate({name: getattr(record, name) for name in ExportedRun.model_fields})


def _evaluations(session: Session, ids: set[int]) -> list[EvaluationRow]:
    """In an order that does not depend on this database's ids."""
    rows = session.exec(select(EvaluationRow).where(col(EvaluationRow.id).in_(ids))).all()
    return sorted(rows, key=lambda row: (row.created_at, row.tree_hash))


def _evaluation(session: Session, row: EvaluationRow) -> ExportedEvaluation:
    record, items = evaluation_record(row), items_in(session, row.id or 0)
    names = [name for name in ExportedEvaluation.model_fields if name != "items"]
    return ExportedEvaluation.model_validate({**{name: getattr(record, name) for name in names}, "items": items})


def write_record(export: RunExport, folder: Path) -> Path:
    """The run's `record.json` in `folder`: whole or not there at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path, partial = folder / RECORD_FILE, folder / f"{RECORD_FILE}.partial"
    with partial.open("w", encoding="utf-8") as file:
        file.write(export.model_dump_json())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return path
