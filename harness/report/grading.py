"""A grading's result as one document: its score with error and interval, what the outputs look like, what it took."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from harness.domain.base import Frozen
from harness.domain.findings import StoredFinding
from harness.domain.runs import SubmissionState
from harness.domain.scoring import Improvement, Score
from harness.errors import UsageError
from harness.store.database import Database
from harness.store.models import BaselineRecord, EvaluationRecord, RunRecord, SubmissionRecord
from harness.store.records_evaluations import get_baseline, get_evaluation
from harness.store.records_findings import findings_of
from harness.store.records_queue import submissions_of
from harness.store.records_runs import get_run
from harness.store.repeats import Agreement, agreement_of


class Measured(Frozen):
    """What an evaluation tells beside its scores; rates in [0, 1]. `is_stored`: it was there before."""

    truncation_rate: float
    extraction_failure_rate: float
    mean_output_tokens: float
    load_seconds: float
    generate_seconds: float
    score_seconds: float
    is_stored: bool
    evaluated_at: datetime
    engine: dict[str, Any]
    engine_info: dict[str, Any]


class GradingReport(Frozen):
    """Scores in percent. `score` is on the items that decide under the protocol; `agreement` is that of a repeat."""

    run_id: str
    task: str
    model: str
    base_model: str | None
    protocol: str
    limit: int | None
    state: str
    detail: str | None
    note: str | None
    score: Score | None
    feedback: Score | None
    overall: Score | None
    baseline: Score | None
    improvement: Improvement | None
    measured: Measured | None
    agreement: Agreement | None
    findings: tuple[StoredFinding, ...]


def grading_report(db: Database, run_id: str) -> GradingReport:
    """The result of a grading, or where it is.

    Raises:
        NotFound: no such run.
        UsageError: the run is an agent's.
    """
    run, baseline = get_run(db, run_id), get_baseline(db, run_id)
    grading = run.plan.grading
    if grading is None:
        raise UsageError(f"run {run_id} is no grading", f"See `harness show {run_id}`.")
    submission = next(iter(submissions_of(db, run_id)), None)
    graded = submission if grading.has_base else baseline
    evaluation = get_evaluation(db, graded.evaluation_id) if graded and graded.evaluation_id is not None else None
    protocol = run.plan.protocol
    return GradingReport(
        run_id=run_id,
        task=run.plan.benchmark.id,
        model=grading.path,
        base_model=run.plan.model.repo_id if grading.has_base else None,
        protocol=protocol.value,
        limit=run.plan.limit,
        state=run.verdict.value if run.verdict else run.phase.value,
        detail=_detail(run, submission, baseline),
        note=submission.note if submission else None,
        score=evaluation.scores.headline(protocol) if evaluation else None,
        feedback=evaluation.scores.feedback if evaluation else None,
        overall=evaluation.scores.overall if evaluation else None,
        baseline=baseline.scores.headline(protocol) if grading.has_base and baseline and baseline.scores else None,
        improvement=run.headline.improvement if run.headline else None,
        measured=_measured(evaluation, run) if evaluation else None,
        agreement=agreement_of(db, evaluation.id) if evaluation else None,
        findings=findings_of(db, run_id),
    )


def _detail(run: RunRecord, submission: SubmissionRecord | None, baseline: BaselineRecord | None) -> str | None:
    """Why there is no score, in the grader's words."""
    said = submission.detail if submission and submission.state is not SubmissionState.SCORED else None
    return said or run.detail or (baseline.detail if baseline else None)


def _measured(evaluation: EvaluationRecord, run: RunRecord) -> Measured:
    return Measured(
        truncation_rate=evaluation.truncation_rate,
        extraction_failure_rate=evaluation.extraction_failure_rate,
        mean_output_tokens=evaluation.mean_output_tokens,
        load_seconds=evaluation.load_seconds,
        generate_seconds=evaluation.generate_seconds,
        score_seconds=evaluation.score_seconds,
        is_stored=evaluation.created_at < run.created_at,
        evaluated_at=evaluation.created_at,
        engine=evaluation.engine.model_dump(mode="json"),
        engine_info=evaluation.engine_info,
    )
