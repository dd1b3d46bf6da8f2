"""`results.csv` and `scores.json` in the published form (contracts.md section 7); exported, never read back.

Published figures are over all hidden items, best of the budget. The headline of this harness, the final items' score of
the submission that was best on the feedback items, is `final_score` beside them.
"""

from __future__ import annotations

import csv
import io
from datetime import datetime

from harness.domain.base import Frozen
from harness.domain.connections import label_of
from harness.domain.runs import RunKind, SubmissionState, Verdict
from harness.domain.scoring import Score
from harness.domain.specs import Protocol
from harness.store.database import Database
from harness.store.headline import best_of
from harness.store.models import BaselineRecord, RunRecord, SubmissionRecord
from harness.store.records_evaluations import get_baseline
from harness.store.records_queue import submissions_of
from harness.store.records_runs import get_run, list_runs


class ResultLine(Frozen):
    """One line of `results.csv`; the field names are its columns."""

    run_id: str
    timestamp: datetime
    task: str
    agent: str
    base_model: str
    baseline: float | None
    best_score: float | None
    improvement: float | None
    submissions: int
    duration_s: float | None
    success: bool
    workspace: str
    driver_model: str | None
    protocol: str
    final_score: float | None
    verdict: str | None
    label: str | None


class ScoredSubmission(Frozen):
    """One submission in `scores.json`."""

    submission_id: int
    timestamp: datetime
    model_path: str
    state: str
    score: float | None
    baseline_score: float | None
    improvement: float | None
    stderr: float | None
    feedback_score: float | None
    final_score: float | None
    elapsed_seconds: float | None
    error_class: str | None


class BestSubmission(Frozen):
    """The best one in `scores.json`."""

    submission_id: int
    score: float


class RunScores(Frozen):
    """`scores.json` of one run; scores are percent."""

    run_id: str
    task: str
    agent: str
    base_model: str
    protocol: str
    verdict: str | None
    baseline_score: float | None
    best: BestSubmission | None
    improvement: float | None
    total_submissions: int
    headline_submission_id: int | None
    final_score: float | None
    final_improvement: float | None
    final_score_interval: tuple[float, float] | None
    final_improvement_interval: tuple[float, float] | None
    final_improvement_probability: float | None
    final_improvement_p_value: float | None
    # Under `paper` these are of all items, and of the best of several scores on them.
    is_selected: bool
    label: str | None
    submissions: tuple[ScoredSubmission, ...]


class _Published(Frozen):
    """Baseline and best over all items."""

    baseline: float | None
    best: BestSubmission | None

    @property
    def improvement(self) -> float | None:
        return _difference(self.best.score if self.best else None, self.baseline)


def _difference(score: float | None, baseline: float | None) -> float | None:
    return None if score is None or baseline is None else score - baseline


def _count(submissions: tuple[SubmissionRecord, ...]) -> int:
    return sum(one.state is not SubmissionState.REJECTED for one in submissions)


def _published(submissions: tuple[SubmissionRecord, ...], baseline: BaselineRecord | None) -> _Published:
    best = best_of(submissions, Protocol.PAPER)
    return _Published(
        baseline=baseline.scores.overall.score_pct if baseline and baseline.scores else None,
        best=BestSubmission(submission_id=best.number, score=best.scores.overall.score_pct)
        if best and best.scores
        else None,
    )


def result_line(db: Database, run: RunRecord) -> ResultLine:
    """A run's line of `results.csv`; `success` means verdict `graded`."""
    submissions = submissions_of(db, run.run_id)
    published = _published(submissions, get_baseline(db, run.run_id))
    return ResultLine(
        run_id=run.run_id,
        timestamp=run.created_at,
        task=run.plan.benchmark.id,
        agent=run.plan.agent.id,
        base_model=run.plan.model.repo_id,
        baseline=published.baseline,
        best_score=published.best.score if published.best else None,
        improvement=published.improvement,
        submissions=_count(submissions),
        duration_s=run.agent_time_s,
        success=run.verdict is Verdict.GRADED,
        workspace=f"runs/{run.run_id}/workspace",
        driver_model=run.plan.driver_model,
        protocol=run.plan.protocol.value,
        final_score=run.headline.score.score_pct if run.headline else None,
        verdict=run.verdict.value if run.verdict else None,
        label=label_of(run.plan.network),
    )


def results_csv(db: Database, run_ids: tuple[str, ...] | None = None) -> str:
    """`results.csv` of these runs (default: all), oldest first; gradings have no agent, and no line."""
    found = list_runs(db) if run_ids is None else tuple(get_run(db, run_id) for run_id in run_ids)
    runs = [run for run in found if run.plan.kind is RunKind.AGENT]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(ResultLine.model_fields), lineterminator="\n")
    writer.writeheader()
    for run in runs:
        writer.writerow(result_line(db, run).model_dump(mode="json"))
    return text.getvalue()


def run_scores(db: Database, run_id: str) -> RunScores:
    """`scores.json` of one run. Raises NotFound."""
    run, submissions = get_run(db, run_id), submissions_of(db, run_id)
    published = _published(submissions, get_baseline(db, run_id))
    gain = run.headline.improvement if run.headline else None
    return RunScores(
        run_id=run_id,
        task=run.plan.benchmark.id,
        agent=run.plan.agent.id,
        base_model=run.plan.model.repo_id,
        protocol=run.plan.protocol.value,
        verdict=run.verdict.value if run.verdict else None,
        baseline_score=published.baseline,
        best=published.best,
        improvement=published.improvement,
        total_submissions=_count(submissions),
        headline_submission_id=run.headline.submission_number if run.headline else None,
        final_score=run.headline.score.score_pct if run.headline else None,
        final_improvement=gain.points if gain else None,
        final_score_interval=_interval(run.headline.score) if run.headline else None,
        final_improvement_interval=(gain.low, gain.high) if gain else None,
        final_improvement_probability=gain.probability if gain else None,
        final_improvement_p_value=gain.p_value if gain else None,
        is_selected=run.plan.protocol is Protocol.PAPER,
        label=label_of(run.plan.network),
        submissions=tuple(_scored(one, published.baseline) for one in submissions),
    )


def _interval(score: Score) -> tuple[float, float] | None:
    return None if score.low_pct is None or score.high_pct is None else (score.low_pct, score.high_pct)


def _scored(one: SubmissionRecord, baseline: float | None) -> ScoredSubmission:
    scores = one.scores
    overall = scores.overall if scores else None
    return ScoredSubmission(
        submission_id=one.number,
        timestamp=one.submitted_at,
        model_path=one.model_path,
        state=one.state.value,
        score=overall.score_pct if overall else None,
        baseline_score=baseline,
        improvement=_difference(overall.score_pct if overall else None, baseline),
        stderr=overall.stderr_pct if overall else None,
        feedback_score=scores.feedback.score_pct if scores and scores.feedback else None,
        final_score=scores.final.score_pct if scores else None,
        elapsed_seconds=(one.ended_at - one.submitted_at).total_seconds() if one.ended_at else None,
        error_class=one.error_class,
    )
