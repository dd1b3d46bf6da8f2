"""The frozen records that the store takes and returns; callers never see a row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.items import Part
from harness.domain.runs import EndedBy, Owner, Phase, SubmissionState, Verdict
from harness.domain.scoring import Improvement, ItemResult, Score
from harness.domain.specs import EngineSpec, Protocol, RunPlan


class EvaluationKey(Frozen):
    """What makes two evaluations the same one (contracts.md section 4)."""

    task_protocol: str
    engine_hash: str
    base_model_hash: str
    tree_hash: str


class PartScores(Frozen):
    """One evaluation's scores per part; there is no feedback where the benchmark has a single item."""

    feedback: Score | None
    final: Score
    overall: Score

    def shown(self, protocol: Protocol) -> Score | None:
        """What an agent may be told: the feedback items (standard), all items (paper)."""
        return self.overall if protocol is Protocol.PAPER else self.feedback

    def ranking(self, protocol: Protocol) -> Score:
        """What decides which submission is the best one."""
        return self.shown(protocol) or self.overall

    def headline(self, protocol: Protocol) -> Score:
        """What a run is reported with: the final items (standard), all items (paper)."""
        return self.overall if protocol is Protocol.PAPER else self.final


class ItemScore(ItemResult):
    """An item's result with the part it belongs to."""

    part: Part


class NewEvaluation(Frozen):
    """A finished evaluation to be kept; the scores per part are computed from the items by the store."""

    key: EvaluationKey
    engine: EngineSpec
    engine_info: dict[str, Any] = Field(default_factory=dict)
    items: tuple[ItemScore, ...]
    load_seconds: float = 0.0
    generate_seconds: float = 0.0
    score_seconds: float = 0.0


Metrics = dict[str, dict[str, float]]


class EvaluationRecord(Frozen):
    """A stored evaluation; its items come from `item_scores`. `metrics`: part (feedback, final, all), name, value."""

    id: int
    key: EvaluationKey
    scores: PartScores
    metrics: Metrics = Field(default_factory=dict)
    truncation_rate: float
    extraction_failure_rate: float
    mean_output_tokens: float
    engine: EngineSpec
    engine_info: dict[str, Any]
    load_seconds: float
    generate_seconds: float
    score_seconds: float
    created_at: datetime


class BaselineRecord(Frozen):
    """A run's baseline: `state` is queued, scoring, scored or failed; `scores` where scored."""

    run_id: str
    state: SubmissionState
    evaluation_id: int | None = None
    is_cached: bool = False
    scores: PartScores | None = None
    metrics: Metrics = Field(default_factory=dict)
    detail: str | None = None
    attempts: int = 0


class Headline(Frozen):
    """What a graded run is reported with; improvement is None where there is no baseline."""

    submission_number: int
    score: Score
    baseline: Score | None = None
    improvement: Improvement | None = None


class RunRecord(Frozen):
    """A run as stored."""

    run_id: str
    plan: RunPlan
    task_protocol: str
    engine_hash: str
    base_model_hash: str
    phase: Phase
    verdict: Verdict | None = None
    ended_by: EndedBy | None = None
    exit_code: int | None = None
    detail: str = ""
    owner: Owner | None = None
    token_sha256: str = ""
    subnet: str = ""
    created_at: datetime
    started_at: datetime | None = None
    deadline: datetime | None = None
    agent_ended_at: datetime | None = None
    closed_at: datetime | None = None
    imported_at: datetime | None = None
    headline: Headline | None = None

    @property
    def agent_time_s(self) -> float | None:
        """Agent time used, without the pauses of a stopped run: each moves its deadline, so count from there."""
        if self.deadline is None or self.agent_ended_at is None:
            return None
        return self.plan.limits.timeout_s - (self.deadline - self.agent_ended_at).total_seconds()

    @property
    def is_closed(self) -> bool:
        return self.verdict is not None

    def evaluation_key(self, tree_hash: str) -> EvaluationKey:
        """The cache key of a snapshot under this run's protocol and engine."""
        return EvaluationKey(
            task_protocol=self.task_protocol,
            engine_hash=self.engine_hash,
            base_model_hash=self.base_model_hash,
            tree_hash=tree_hash,
        )


class Quota(Frozen):
    """How many submissions a run may make; None: no limit."""

    max_total: int | None = None
    max_per_hour: int | None = None
    max_rejected: int
    max_rejected_per_hour: int


class NewSubmission(Frozen):
    """A submission as it comes in; `model_path` is relative to the workspace."""

    run_id: str
    model_path: str
    submitted_at: datetime
    note: str | None = None


class SubmissionRecord(Frozen):
    """A submission as stored. `id` is global and for the store's callers; an agent sees `number`, 1, 2, ... per run."""

    id: int
    run_id: str
    number: int
    state: SubmissionState
    model_path: str
    submitted_at: datetime
    copied_at: datetime | None = None
    scoring_at: datetime | None = None
    ended_at: datetime | None = None
    tree_hash: str | None = None
    evaluation_id: int | None = None
    scores: PartScores | None = None
    metrics: Metrics = Field(default_factory=dict)
    error_class: str | None = None
    detail: str | None = None
    note: str | None = None
    attempts: int = 0


class LlmSpend(Frozen):
    """What a run used of its driver LLM; refused calls are no calls.

    `is_price_listed` is false where a model's price is not known: then `cost_usd` is what the budget was charged, at
    the price of the dearest model. `estimated_calls`: those whose tokens nobody told, so that they were estimated.
    """

    calls: int = 0
    failed_calls: int = 0
    refused_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    is_price_listed: bool = True
    estimated_calls: int = 0


class EventRecord(Frozen):
    """Something that happened to a run."""

    run_id: str
    at: datetime
    kind: str
    detail: dict[str, Any] = Field(default_factory=dict)
