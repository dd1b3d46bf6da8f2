"""`record.json`: every row of one run as one document that another database can take in.

Left out is what matters only while a run lives (owner, token, subnet) and every database's own ids. There is no hidden
question or answer in it, because the store has none; it does hold the model's outputs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field, StringConstraints

from harness.domain.base import Frozen
from harness.domain.findings import Severity
from harness.domain.runs import EndedBy, Phase, SubmissionState, Verdict
from harness.domain.specs import EngineSpec, RunPlan
from harness.store.models import EvaluationKey, Headline, ItemScore

RUN_ID_PATTERN = r"^\d{8}T\d{6}_[a-z0-9][a-z0-9._-]{0,62}_[0-9a-f]{4}$"


def _plain_relative(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ValueError("not a path inside the run folder")
    return path


Name = Annotated[str, StringConstraints(max_length=4_096)]
LongText = Annotated[str, StringConstraints(max_length=4_000_000)]
RelativePath = Annotated[Name, AfterValidator(_plain_relative)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Time = Annotated[AwareDatetime, Field(ge=datetime(2000, 1, 1, tzinfo=UTC), le=datetime(9000, 1, 1, tzinfo=UTC))]
Json = dict[str, Any]


class ExportedRun(Frozen):
    """A run without what is of its own machine. The three hashes are those of the version that scored it."""

    plan: RunPlan
    task_protocol: Name
    engine_hash: Name
    base_model_hash: Name
    phase: Phase
    verdict: Verdict | None
    ended_by: EndedBy | None
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None
    detail: LongText
    started_at: Time | None
    deadline: Time | None
    agent_ended_at: Time | None
    closed_at: Time | None
    headline: Headline | None


class ExportedEvaluation(Frozen):
    """An evaluation with its items; scores per part follow from them."""

    key: EvaluationKey
    engine: EngineSpec
    engine_info: Json
    load_seconds: Amount
    generate_seconds: Amount
    score_seconds: Amount
    created_at: Time
    items: Annotated[tuple[ItemScore, ...], Field(min_length=1, max_length=1_000_000)]


class ExportedBaseline(Frozen):
    """A baseline; `evaluation` is an index into the document's evaluations."""

    state: SubmissionState
    evaluation: Count | None
    is_cached: bool
    attempts: Count
    detail: LongText | None
    requested_at: Time
    ended_at: Time | None


class ExportedSubmission(Frozen):
    """A submission; `evaluation` is an index into the document's evaluations."""

    number: Annotated[int, Field(ge=1, le=2**53)]
    state: SubmissionState
    model_path: Name
    submitted_at: Time
    copied_at: Time | None
    scoring_at: Time | None
    ended_at: Time | None
    tree_hash: Name | None
    evaluation: Count | None
    error_class: Name | None
    detail: LongText | None
    note: LongText | None
    attempts: Count


class ExportedEvent(Frozen):
    at: Time
    kind: Name
    detail: Json


class ExportedSample(Frozen):
    at: Time
    cpu_pct: Finite
    memory_mb: Finite
    disk_mb: Finite
    pids: Count
    gpu_memory_mb: Finite | None = None
    gpu_pct: Finite | None = None


class ExportedLlmCall(Frozen):
    number: Count
    at: Time
    provider: Name
    model: Name
    http_status: Count
    input_tokens: Count
    cached_tokens: Count
    cache_write_tokens: Count
    output_tokens: Count
    cost_usd: Amount
    seconds: Amount
    detail: Json


class ExportedFinding(Frozen):
    submission_number: Count | None
    at: Time
    kind: Name
    severity: Severity
    detail: LongText
    evidence: Json = Field(default_factory=dict)
    tool_version: Name = ""


class ExportedArtifact(Frozen):
    path: RelativePath
    size_bytes: Count
    sha256: Name


class RunExport(Frozen):
    """All rows of one run, its baseline's evaluation included."""

    model_config = ConfigDict(allow_inf_nan=False)

    version: Literal[1] = 1
    run_id: Annotated[str, StringConstraints(pattern=RUN_ID_PATTERN)]
    run: ExportedRun
    baseline: ExportedBaseline | None
    submissions: Annotated[tuple[ExportedSubmission, ...], Field(max_length=100_000)]
    evaluations: Annotated[tuple[ExportedEvaluation, ...], Field(max_length=100_000)]
    events: Annotated[tuple[ExportedEvent, ...], Field(max_length=1_000_000)]
    resource_samples: Annotated[tuple[ExportedSample, ...], Field(max_length=2_000_000)]
    llm_calls: Annotated[tuple[ExportedLlmCall, ...], Field(max_length=2_000_000)]
    findings: Annotated[tuple[ExportedFinding, ...], Field(max_length=100_000)]
    artifacts: Annotated[tuple[ExportedArtifact, ...], Field(max_length=1_000_000)]
