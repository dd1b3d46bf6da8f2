"""Another database's run taken in: validated as hostile input, idempotent, never a cache for runs made here."""

from __future__ import annotations

import json
import math
from statistics import NormalDist, fmean
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import IntegrityError, StatementError
from sqlmodel import Session

from harness.domain.base import canonical_hash, now_utc
from harness.domain.runs import SubmissionState, Verdict
from harness.domain.scoring import Improvement
from harness.errors import Conflict, UsageError
from harness.store.database import WritableDatabase
from harness.store.export import export_in
from harness.store.exported import ExportedBaseline, ExportedEvaluation, ExportedSubmission, RunExport
from harness.store.headline import score_parts
from harness.store.mapping import run_record, run_row, set_headline
from harness.store.models import EvaluationKey, Headline, NewEvaluation, RunRecord
from harness.store.records_closing import headline_in
from harness.store.records_evaluations import evaluation_row, find_in, insert_evaluation
from harness.store.tables import (
    ArtifactRow,
    BaselineRow,
    EventRow,
    FindingRow,
    LlmCallRow,
    ResourceSampleRow,
    RunRow,
    SubmissionRow,
)

MAX_RECORD_BYTES = 256 * 1024 * 1024
# Sums of floating point numbers on another machine may differ in the last digit.
TOLERANCE = 1e-6
# What a headline of an earlier version lacks.
ADDED = {"low_pct", "high_pct", "method", "seed", "probability", "p_value", "n_won", "n_lost", "n_tied"}
_FIX = "Use the record.json that `harness export` or a finished run has written."


def parse_record(data: bytes) -> RunExport:
    """The document, valid and consistent in itself.

    Raises:
        UsageError: too large, no JSON, another version, or it contradicts itself; says where.
    """
    if len(data) > MAX_RECORD_BYTES:
        raise UsageError(f"the record has {len(data)} bytes, the limit is {MAX_RECORD_BYTES}", _FIX)
    try:
        export = RunExport.model_validate_json(data)
        # What SQLite or a later export could not write again: NaN or infinity inside free JSON, lone surrogates.
        json.dumps(export.model_dump(mode="json"), allow_nan=False, ensure_ascii=False).encode()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise UsageError(f"not a run record: {where}: {first['msg']}", _FIX) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not a run record: {error}", _FIX) from error
    fault = _contradiction(export)
    if fault:
        raise UsageError(f"the record of run {export.run_id} contradicts itself: {fault}", _FIX)
    return export


def _contradiction(export: RunExport) -> str:
    """What does not fit together; empty if all does."""
    run, n = export.run, len(export.evaluations)
    linked = [s.evaluation for s in export.submissions] + ([export.baseline.evaluation] if export.baseline else [])
    if run.plan.run_id != export.run_id:
        return "its plan is of another run"
    if run.plan.created_at.tzinfo is None:
        return "its creation time has no time zone"
    if run.verdict is None or run.closed_at is None:
        return "the run is not closed; only finished runs can be imported"
    if [s.number for s in export.submissions] != list(range(1, len(export.submissions) + 1)):
        return "submissions are not numbered 1, 2, ..."
    if any(index is not None and index >= n for index in linked) or set(range(n)) - set(linked):
        return "evaluations and what refers to them do not match"
    if any((s.state is SubmissionState.SCORED) != (s.evaluation is not None) for s in export.submissions):
        return "exactly the scored submissions must have an evaluation"
    if run.verdict is not Verdict.INTERRUPTED and any(not s.state.is_final for s in export.submissions):
        return "a submission is still open"
    if len({call.number for call in export.llm_calls}) < len(export.llm_calls):
        return "two LLM calls have one number"
    is_graded = any(s.evaluation is not None for s in export.submissions) or _is_graded_baseline(export)
    if (run.verdict is Verdict.GRADED) != is_graded:
        return "the verdict does not fit the submissions"
    return _wrong_key(export) or _wrong_item(export)


def _is_graded_baseline(export: RunExport) -> bool:
    grading, baseline = export.run.plan.grading, export.baseline
    return grading is not None and not grading.has_base and baseline is not None and baseline.evaluation is not None


def _wrong_key(export: RunExport) -> str:
    run = export.run
    trees = [(s.evaluation, s.tree_hash) for s in export.submissions]
    if export.baseline:
        trees.append((export.baseline.evaluation, run.plan.model.tree_hash))
    for index, tree_hash in trees:
        if index is None:
            continue
        wanted = EvaluationKey(
            task_protocol=run.task_protocol,
            engine_hash=run.engine_hash,
            base_model_hash=run.base_model_hash,
            tree_hash=tree_hash or "",
        )
        if export.evaluations[index].key != wanted:
            return f"evaluation {index} is of another protocol, engine, base model or checkpoint"
    return ""


def _wrong_item(export: RunExport) -> str:
    for item in (item for evaluation in export.evaluations for item in evaluation.items):
        samples = item.sample_scores
        if not all(0 <= score <= 1 for score in samples):
            return f"item {item.item_id} has samples with a score outside [0, 1]"
        if samples and not math.isclose(fmean(samples), item.score, abs_tol=TOLERANCE):
            return f"the score of item {item.item_id} is not the mean of its samples"
        if item.output_tokens < 0:
            return f"item {item.item_id} has fewer than no output tokens"
    return ""


def import_run(db: WritableDatabase, data: bytes) -> RunRecord:
    """The run as it is in this database now; the same record again changes nothing.

    Raises:
        UsageError: the document is not a valid record.
        Conflict: a run of this id is here with other content.
    """
    export = parse_record(data)

    def work(session: Session) -> RunRecord:
        row = session.get(RunRow, export.run_id)
        if row is None:
            row = _insert(session, export)
        elif export_in(session, export.run_id) != export:
            raise Conflict(
                f"run {export.run_id} is in this database already, with other content",
                "Nothing was changed. Import it into an empty HARNESS_HOME to compare the two.",
            )
        return run_record(row)

    try:
        return db.write(work)
    except (IntegrityError, ValueError, OverflowError) as error:
        raise UsageError(f"the record of run {export.run_id} does not fit the tables: {error}", _FIX) from error
    except StatementError as error:
        if not isinstance(error.orig, ValueError | OverflowError):
            raise
        raise UsageError(f"the record of run {export.run_id} does not fit the tables: {error.orig}", _FIX) from error


def _insert(session: Session, export: RunExport) -> RunRow:
    run = export.run
    row = run_row(run.plan)
    row.task_protocol, row.engine_hash, row.base_model_hash = run.task_protocol, run.engine_hash, run.base_model_hash
    row.phase, row.verdict = run.phase.value, run.verdict.value if run.verdict else None
    row.ended_by, row.exit_code, row.detail = run.ended_by.value if run.ended_by else None, run.exit_code, run.detail
    row.started_at, row.deadline, row.agent_ended_at = run.started_at, run.deadline, run.agent_ended_at
    row.closed_at, row.imported_at = run.closed_at, now_utc()
    session.add(row)
    session.flush()
    ids = [_take_evaluation(session, evaluation) for evaluation in export.evaluations]
    _insert_children(session, export, ids)
    session.flush()
    computed = headline_in(session, row)
    if not _agree(run.headline, computed):
        raise UsageError(f"the headline of run {export.run_id} does not follow from its item scores", _FIX)
    set_headline(row, run.headline)
    return row


def _take_evaluation(session: Session, evaluation: ExportedEvaluation) -> int:
    """The id here; two imported runs that share an evaluation share it here too."""
    origin = canonical_hash(evaluation.model_dump(mode="json"))
    known = find_in(session, evaluation.key, origin)
    if known is not None and known.id is not None:
        return known.id
    fields = {name: getattr(evaluation, name) for name in NewEvaluation.model_fields}
    row = evaluation_row(NewEvaluation(**fields), score_parts(evaluation.items), origin)
    row.created_at = evaluation.created_at
    return insert_evaluation(session, row, evaluation.items)


def _insert_children(session: Session, export: RunExport, ids: list[int]) -> None:
    run_id = export.run_id

    def fields(part: ExportedBaseline | ExportedSubmission) -> dict[str, Any]:
        index = part.evaluation
        values = {**dict(part), "state": part.state.value, "evaluation_id": None if index is None else ids[index]}
        del values["evaluation"]
        return {**values, "run_id": run_id}

    if export.baseline:
        session.add(BaselineRow(**fields(export.baseline)))
    for submission in export.submissions:
        session.add(SubmissionRow(**fields(submission)))
    session.flush()
    for event in export.events:
        session.add(EventRow(run_id=run_id, **dict(event)))
    for sample in export.resource_samples:
        session.add(ResourceSampleRow(run_id=run_id, **dict(sample)))
    for call in export.llm_calls:
        session.add(LlmCallRow(run_id=run_id, **dict(call)))
    for finding in export.findings:
        session.add(FindingRow(run_id=run_id, **dict(finding)))
    for artifact in export.artifacts:
        session.add(ArtifactRow(run_id=run_id, **dict(artifact)))


def _agree(told: Headline | None, computed: Headline | None) -> bool:
    """Whether two headlines are the same up to rounding, and up to what earlier versions did not tell."""
    if told and computed and told.improvement and computed.improvement and told.improvement.method is None:
        computed = computed.model_copy(update={"improvement": _with_normal_interval(computed.improvement)})
    return _close(told.model_dump() if told else None, computed.model_dump() if computed else None)


def _with_normal_interval(gain: Improvement) -> Improvement:
    """As version 0.1 computed it."""
    half = NormalDist().inv_cdf(0.975) * gain.stderr_pct
    return gain.model_copy(update={"low": gain.points - half, "high": gain.points + half})


def _close(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all((key in ADDED and a[key] is None) or _close(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return a == b
