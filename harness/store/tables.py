"""The tables as row models (contracts.md section 7); rows never leave the store, and skip validation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from harness.store.columns import JsonText, UtcTime


class RunRow(SQLModel, table=True):
    """One run: what was planned (searchable columns beside the whole plan), where it is, what came of it."""

    __tablename__ = "run"

    run_id: str = Field(primary_key=True)
    kind: str = "agent"
    agent: str
    task: str
    base_model: str
    base_model_hash: str
    driver_model: str | None = None
    protocol: str
    limit_items: int | None = None
    seed: int
    timeout_s: int
    network: str
    device: str
    task_protocol: str
    engine_hash: str
    plan: dict[str, Any] = Field(sa_type=JsonText, nullable=False)
    phase: str
    verdict: str | None = None
    ended_by: str | None = None
    exit_code: int | None = None
    detail: str = ""
    owner: dict[str, Any] | None = Field(default=None, sa_type=JsonText, nullable=True)
    token_sha256: str = Field(default="", index=True)
    subnet: str = ""
    created_at: datetime = Field(sa_type=UtcTime, nullable=False)
    started_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    deadline: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    agent_ended_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    closed_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    # Set where the run came from another database; such a run is never taken up again.
    imported_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    # The headline, decided when the run is closed.
    best_submission: int | None = None
    final_pct: float | None = None
    final_stderr_pct: float | None = None
    final_items: int | None = None
    final_low_pct: float | None = None
    final_high_pct: float | None = None
    final_method: str | None = None
    baseline_pct: float | None = None
    baseline_stderr_pct: float | None = None
    baseline_low_pct: float | None = None
    baseline_high_pct: float | None = None
    baseline_method: str | None = None
    improvement_pct: float | None = None
    improvement_stderr_pct: float | None = None
    improvement_low_pct: float | None = None
    improvement_high_pct: float | None = None
    improvement_method: str | None = None
    improvement_seed: int | None = None
    improvement_probability: float | None = None
    improvement_p_value: float | None = None
    items_won: int | None = None
    items_lost: int | None = None
    items_tied: int | None = None


class EvaluationRow(SQLModel, table=True):
    """One finished evaluation. `origin` is empty for those made here, a content digest for imported ones."""

    __tablename__ = "evaluation"
    __table_args__ = (UniqueConstraint("task_protocol", "engine_hash", "base_model_hash", "tree_hash", "origin"),)

    id: int | None = Field(default=None, primary_key=True)
    task_protocol: str
    engine_hash: str
    base_model_hash: str
    tree_hash: str
    origin: str = ""
    feedback_pct: float | None = None
    feedback_stderr_pct: float | None = None
    feedback_items: int | None = None
    feedback_low_pct: float | None = None
    feedback_high_pct: float | None = None
    feedback_method: str | None = None
    final_pct: float
    final_stderr_pct: float
    final_items: int
    final_low_pct: float | None = None
    final_high_pct: float | None = None
    final_method: str | None = None
    all_pct: float
    all_stderr_pct: float
    all_items: int
    all_low_pct: float | None = None
    all_high_pct: float | None = None
    all_method: str | None = None
    truncation_rate: float
    extraction_failure_rate: float
    mean_output_tokens: float
    # Rates per part, and pass@k where several completions were drawn: {"final": {"pass@1": 0.5, ...}, ...}.
    metrics: dict[str, dict[str, float]] = Field(default_factory=dict, sa_type=JsonText, nullable=False)
    engine: dict[str, Any] = Field(sa_type=JsonText, nullable=False)
    engine_info: dict[str, Any] = Field(sa_type=JsonText, nullable=False)
    load_seconds: float
    generate_seconds: float
    score_seconds: float
    created_at: datetime = Field(sa_type=UtcTime, nullable=False)


class ItemScoreRow(SQLModel, table=True):
    """What an evaluation says of one hidden item: its id and the model's output, never the question or answer."""

    __tablename__ = "item_score"

    evaluation_id: int = Field(primary_key=True, foreign_key="evaluation.id")
    item_id: str = Field(primary_key=True)
    part: str
    score: float
    output: str
    output_tokens: int
    is_truncated: bool
    is_extracted: bool
    cluster: str = ""
    sample_scores: list[float] = Field(default_factory=list, sa_type=JsonText, nullable=False)


class BaselineRow(SQLModel, table=True):
    """Which evaluation is a run's baseline, or where that evaluation is."""

    __tablename__ = "baseline"

    run_id: str = Field(primary_key=True, foreign_key="run.run_id")
    state: str
    evaluation_id: int | None = Field(default=None, foreign_key="evaluation.id")
    is_cached: bool = False
    attempts: int = 0
    detail: str | None = None
    requested_at: datetime = Field(sa_type=UtcTime, nullable=False)
    ended_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)


class SubmissionRow(SQLModel, table=True):
    """One submission. Agents see `number` (1, 2, ... in their run); `id` would tell them of other runs."""

    __tablename__ = "submission"
    __table_args__ = (UniqueConstraint("run_id", "number"), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.run_id")
    number: int
    state: str = Field(index=True)
    model_path: str
    submitted_at: datetime = Field(sa_type=UtcTime, nullable=False)
    copied_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    scoring_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    ended_at: datetime | None = Field(default=None, sa_type=UtcTime, nullable=True)
    tree_hash: str | None = None
    evaluation_id: int | None = Field(default=None, foreign_key="evaluation.id")
    error_class: str | None = None
    detail: str | None = None
    note: str | None = None
    attempts: int = 0


class EventRow(SQLModel, table=True):
    """Something that happened to a run."""

    __tablename__ = "event"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.run_id", index=True)
    at: datetime = Field(sa_type=UtcTime, nullable=False)
    kind: str
    detail: dict[str, Any] = Field(sa_type=JsonText, nullable=False)


class ResourceSampleRow(SQLModel, table=True):
    """What a run's agent container used at one moment; of GPUs, what everybody on the run's used, scoring included."""

    __tablename__ = "resource_sample"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.run_id", index=True)
    at: datetime = Field(sa_type=UtcTime, nullable=False)
    cpu_pct: float
    memory_mb: float
    disk_mb: float
    pids: int
    gpu_memory_mb: float | None = None
    gpu_pct: float | None = None


class LlmCallRow(SQLModel, table=True):
    """One call of an agent to its driver LLM, as the gateway metered it."""

    __tablename__ = "llm_call"
    __table_args__ = (Index("ix_llm_call_run_id_number", "run_id", "number", unique=True),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.run_id", index=True)
    number: int
    at: datetime = Field(sa_type=UtcTime, nullable=False)
    provider: str
    model: str
    http_status: int
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int = 0
    output_tokens: int
    cost_usd: float
    seconds: float
    detail: dict[str, Any] = Field(sa_type=JsonText, nullable=False)


class FindingRow(SQLModel, table=True):
    """An integrity finding beside the verdict; never overwrites a score. Severity: info, warning, serious."""

    __tablename__ = "finding"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="run.run_id", index=True)
    submission_number: int | None = None
    at: datetime = Field(sa_type=UtcTime, nullable=False)
    kind: str
    severity: str
    detail: str
    evidence: dict[str, Any] = Field(default_factory=dict, sa_type=JsonText, nullable=False)
    tool_version: str = ""


class ArtifactRow(SQLModel, table=True):
    """One file that was kept of a run, path relative to the run folder."""

    __tablename__ = "artifact"

    run_id: str = Field(primary_key=True, foreign_key="run.run_id")
    path: str = Field(primary_key=True)
    size_bytes: int
    sha256: str
