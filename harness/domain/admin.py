"""What the harness and the grader say to each other over the admin socket (wire models, both sides)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.runs import EndedBy, Owner, Phase, RunKind, SubmissionState, Verdict
from harness.domain.specs import RunPlan


class RegisterRun(Frozen):
    """`POST /runs`: idempotent for the same run id. `token_sha256` is hex; `subnet` is the run network's CIDR."""

    plan: RunPlan
    owner: Owner
    token_sha256: str
    subnet: str


class SetPhase(Frozen):
    """`POST /runs/{id}/phase`: where the run is now, and who drives it."""

    phase: Phase
    owner: Owner


class StartClock(Frozen):
    """`POST /runs/{id}/clock`: when the agent process started and when its time is up, on the grader's clock.

    A run keeps its first start, except that one `is_exact` sets the estimate right that it was begun with.
    """

    started_at: datetime
    deadline: datetime
    is_exact: bool = False


class EventIn(Frozen):
    """`POST /runs/{id}/events`: something worth keeping; `detail` is JSON."""

    kind: str
    detail: dict[str, Any] = Field(default_factory=dict)


class ResourceSampleIn(Frozen):
    """`POST /runs/{id}/samples`: the agent's container; of the run's GPUs, what everybody on them uses together."""

    cpu_pct: float
    memory_mb: float
    disk_mb: float
    pids: int
    gpu_memory_mb: float | None = None
    gpu_pct: float | None = None


class ArtifactIn(Frozen):
    """One file that was kept of a run, path relative to the run folder."""

    path: str
    size_bytes: int
    sha256: str


class GradeCheckpoint(Frozen):
    """`POST /runs/{id}/submissions`: hands in the one checkpoint of a grading, below the directory handed over.

    Only a run of kind `grade` takes it: what agents hand in comes from agents.
    """

    model_path: str


class FinishRun(Frozen):
    """`POST /runs/{id}/finish`: the agent part is over; no submission is taken any more."""

    ended_by: EndedBy
    exit_code: int | None = None
    detail: str = ""


class CloseRun(Frozen):
    """`POST /runs/{id}/close`: everything is collected; the grader computes and stores the verdict and headline."""

    artifacts: tuple[ArtifactIn, ...] = ()
    # Set where the harness knows better than the submissions do (a run that never reached its agent).
    verdict: Verdict | None = None


class SubmissionView(Frozen):
    """A submission as the harness and people see it; scores are those of the feedback and final items."""

    submission_id: int
    state: SubmissionState
    model_path: str
    submitted_at: datetime
    feedback_pct: float | None = None
    # What its agent was told: rounded, under `standard`.
    shown_pct: float | None = None
    final_pct: float | None = None
    final_stderr_pct: float | None = None
    error_class: str | None = None
    detail: str | None = None
    note: str | None = None


class BaselineView(Frozen):
    """The base model's scores under the run's protocol."""

    feedback_pct: float | None
    final_pct: float
    final_stderr_pct: float
    is_cached: bool


class RunStatus(Frozen):
    """`GET /runs/{id}`: what the run loop needs to know, polled about once a second."""

    run_id: str
    kind: RunKind = RunKind.AGENT
    phase: Phase
    verdict: Verdict | None = None
    ended_by: EndedBy | None = None
    owner: Owner | None = None
    started_at: datetime | None = None
    deadline: datetime | None = None
    agent_ended_at: datetime | None = None
    baseline: BaselineView | None = None
    baseline_error: str | None = None
    submissions: tuple[SubmissionView, ...] = ()
    open_submissions: int = 0
    # The harness acts on these two: start inference and scorer; hand over the output directory's descriptor.
    needs_services: bool = False
    needs_output: bool = False
    # How often this grader process found the run's services up when it had work for them.
    service_uses: int = 0
    # Changes whenever the grader process is a new one.
    grader_boot_id: str = ""


class GraderStats(Frozen):
    """`GET /stats`."""

    version: str
    image: str
    boot_id: str
    started_at: datetime
    active_runs: tuple[str, ...]
    queued: int
    scoring: int
