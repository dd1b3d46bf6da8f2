"""Rows to records: the only place that knows both."""

from __future__ import annotations

from harness.domain.findings import StoredFinding
from harness.domain.items import Part
from harness.domain.runs import EndedBy, Owner, Phase, SubmissionState, Verdict
from harness.domain.scoring import Improvement, Score
from harness.domain.specs import EngineSpec, RunPlan
from harness.store.models import (
    BaselineRecord,
    EvaluationKey,
    EvaluationRecord,
    EventRecord,
    Headline,
    ItemScore,
    PartScores,
    RunRecord,
    SubmissionRecord,
)
from harness.store.tables import BaselineRow, EvaluationRow, EventRow, FindingRow, ItemScoreRow, RunRow, SubmissionRow


def _score(row: EvaluationRow | RunRow, name: str, n_items: int | None) -> Score | None:
    """The score in the row's columns `<name>_pct`, `<name>_stderr_pct`, `<name>_low_pct`, ..."""
    score_pct, stderr_pct = getattr(row, f"{name}_pct"), getattr(row, f"{name}_stderr_pct")
    if score_pct is None or stderr_pct is None or n_items is None:
        return None
    return Score(
        score_pct=score_pct,
        stderr_pct=stderr_pct,
        n_items=n_items,
        low_pct=getattr(row, f"{name}_low_pct"),
        high_pct=getattr(row, f"{name}_high_pct"),
        method=getattr(row, f"{name}_method"),
    )


def set_score(row: EvaluationRow | RunRow, name: str, score: Score | None) -> None:
    """Writes `score` (or its absence) into the row's columns `<name>_pct`, ...; the number of items is apart."""
    for column, value in (
        ("pct", score and score.score_pct),
        ("stderr_pct", score and score.stderr_pct),
        ("low_pct", score and score.low_pct),
        ("high_pct", score and score.high_pct),
        ("method", score and score.method),
    ):
        setattr(row, f"{name}_{column}", value)


def headline_record(row: RunRow) -> Headline | None:
    """The headline of a closed run with a scored submission."""
    score = _score(row, "final", row.final_items)
    if row.best_submission is None or score is None:
        return None
    gain = None
    if row.improvement_pct is not None:
        gain = Improvement(
            points=row.improvement_pct,
            stderr_pct=row.improvement_stderr_pct or 0.0,
            low=row.improvement_low_pct or 0.0,
            high=row.improvement_high_pct or 0.0,
            n_items=score.n_items,
            method=row.improvement_method,
            seed=row.improvement_seed,
            probability=row.improvement_probability,
            p_value=row.improvement_p_value,
            n_won=row.items_won,
            n_lost=row.items_lost,
            n_tied=row.items_tied,
        )
    return Headline(
        submission_number=row.best_submission,
        score=score,
        baseline=_score(row, "baseline", row.final_items),
        improvement=gain,
    )


def set_headline(row: RunRow, headline: Headline | None) -> None:
    """Writes `headline` (or its absence) into the row."""
    score = headline.score if headline else None
    gain = headline.improvement if headline else None
    row.best_submission = headline.submission_number if headline else None
    row.final_items = score.n_items if score else None
    set_score(row, "final", score)
    set_score(row, "baseline", headline.baseline if headline else None)
    row.improvement_pct = gain.points if gain else None
    row.improvement_stderr_pct = gain.stderr_pct if gain else None
    row.improvement_low_pct = gain.low if gain else None
    row.improvement_high_pct = gain.high if gain else None
    row.improvement_method = gain.method if gain else None
    row.improvement_seed = gain.seed if gain else None
    row.improvement_probability = gain.probability if gain else None
    row.improvement_p_value = gain.p_value if gain else None
    row.items_won = gain.n_won if gain else None
    row.items_lost = gain.n_lost if gain else None
    row.items_tied = gain.n_tied if gain else None


def run_record(row: RunRow) -> RunRecord:
    """A run's record."""
    return RunRecord(
        run_id=row.run_id,
        plan=RunPlan.model_validate(row.plan),
        task_protocol=row.task_protocol,
        engine_hash=row.engine_hash,
        base_model_hash=row.base_model_hash,
        phase=Phase(row.phase),
        verdict=Verdict(row.verdict) if row.verdict else None,
        ended_by=EndedBy(row.ended_by) if row.ended_by else None,
        exit_code=row.exit_code,
        detail=row.detail,
        owner=Owner.model_validate(row.owner) if row.owner else None,
        token_sha256=row.token_sha256,
        subnet=row.subnet,
        created_at=row.created_at,
        started_at=row.started_at,
        deadline=row.deadline,
        agent_ended_at=row.agent_ended_at,
        closed_at=row.closed_at,
        imported_at=row.imported_at,
        headline=headline_record(row),
    )


def run_row(plan: RunPlan) -> RunRow:
    """A new run's row: the searchable columns are taken from the plan."""
    return RunRow(
        run_id=plan.run_id,
        kind=plan.kind.value,
        agent=plan.agent.id,
        task=plan.benchmark.id,
        base_model=plan.model.repo_id,
        base_model_hash=plan.model.hash(),
        driver_model=plan.driver_model,
        protocol=plan.protocol.value,
        limit_items=plan.limit,
        seed=plan.seed,
        timeout_s=plan.limits.timeout_s,
        network=plan.network,
        device=plan.engine.device,
        task_protocol=plan.task_protocol(),
        engine_hash=plan.engine.hash(),
        plan=plan.model_dump(mode="json"),
        phase=Phase.PLANNED.value,
        created_at=plan.created_at,
    )


def part_scores(row: EvaluationRow) -> PartScores:
    """An evaluation's scores per part."""
    final, overall = _score(row, "final", row.final_items), _score(row, "all", row.all_items)
    assert final is not None
    assert overall is not None
    return PartScores(feedback=_score(row, "feedback", row.feedback_items), final=final, overall=overall)


def evaluation_record(row: EvaluationRow) -> EvaluationRecord:
    """An evaluation's record."""
    return EvaluationRecord(
        id=row.id or 0,
        key=EvaluationKey(
            task_protocol=row.task_protocol,
            engine_hash=row.engine_hash,
            base_model_hash=row.base_model_hash,
            tree_hash=row.tree_hash,
        ),
        scores=part_scores(row),
        metrics=row.metrics,
        truncation_rate=row.truncation_rate,
        extraction_failure_rate=row.extraction_failure_rate,
        mean_output_tokens=row.mean_output_tokens,
        engine=EngineSpec.model_validate(row.engine),
        engine_info=row.engine_info,
        load_seconds=row.load_seconds,
        generate_seconds=row.generate_seconds,
        score_seconds=row.score_seconds,
        created_at=row.created_at,
    )


def item_record(row: ItemScoreRow) -> ItemScore:
    """An item's record."""
    return ItemScore(
        item_id=row.item_id,
        part=Part(row.part),
        score=row.score,
        output=row.output,
        output_tokens=row.output_tokens,
        is_truncated=bool(row.is_truncated),
        is_extracted=bool(row.is_extracted),
        cluster=row.cluster,
        sample_scores=tuple(row.sample_scores),
    )


def submission_record(row: SubmissionRow, evaluation: EvaluationRow | None) -> SubmissionRecord:
    """A submission's record with its evaluation's scores."""
    return SubmissionRecord(
        id=row.id or 0,
        run_id=row.run_id,
        number=row.number,
        state=SubmissionState(row.state),
        model_path=row.model_path,
        submitted_at=row.submitted_at,
        copied_at=row.copied_at,
        scoring_at=row.scoring_at,
        ended_at=row.ended_at,
        tree_hash=row.tree_hash,
        evaluation_id=row.evaluation_id,
        scores=part_scores(evaluation) if evaluation else None,
        metrics=evaluation.metrics if evaluation else {},
        error_class=row.error_class,
        detail=row.detail,
        note=row.note,
        attempts=row.attempts,
    )


def baseline_record(row: BaselineRow, evaluation: EvaluationRow | None) -> BaselineRecord:
    """A baseline's record with its evaluation's scores."""
    return BaselineRecord(
        run_id=row.run_id,
        state=SubmissionState(row.state),
        evaluation_id=row.evaluation_id,
        is_cached=bool(row.is_cached),
        scores=part_scores(evaluation) if evaluation else None,
        metrics=evaluation.metrics if evaluation else {},
        detail=row.detail,
        attempts=row.attempts,
    )


def finding_record(row: FindingRow) -> StoredFinding:
    """A finding's record."""
    return StoredFinding.model_validate({name: getattr(row, name) for name in StoredFinding.model_fields})


def event_record(row: EventRow) -> EventRecord:
    """An event's record."""
    return EventRecord(run_id=row.run_id, at=row.at, kind=row.kind, detail=row.detail)
