"""Wire models of the agent side: what an agent sends, and the published replies."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness.domain.base import Frozen
from harness.domain.runs import SubmissionState
from harness.errors import ErrorClass

MAX_PATH_CHARACTERS = 4096


class SubmitRequest(BaseModel):
    """`POST /submit` and `/validate`. `gpu` is of the published API; it and unknown fields are ignored with a note."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    model_path: str = Field(min_length=1, max_length=MAX_PATH_CHARACTERS)
    gpu: Any = None

    def ignored(self) -> str | None:
        """What of the request was ignored, for the reply's note."""
        names = ["gpu"] if "gpu" in self.model_fields_set else []
        unknown = len(self.model_extra or {})
        if unknown:
            names.append("1 unknown field" if unknown == 1 else f"{unknown} unknown fields")
        return f"ignored: {', '.join(names)}" if names else None


class Reply(Frozen):
    """Base of all replies."""

    model_config = ConfigDict(protected_namespaces=())


class Best(Reply):
    """The best submission so far."""

    submission_id: int
    score: float


class SubmitReply(Reply):
    """The published reply of `/submit`, with `stderr` and `note`; percent and points."""

    submission_id: int
    score: float | None
    baseline_score: float | None
    improvement: float | None
    best: Best | None
    total_submissions: int
    timestamp: datetime
    model_path: str
    elapsed_seconds: float
    stderr: float | None = None
    note: str | None = None


class FailedReply(SubmitReply):
    """A submission that got no score: never 0, never `best`."""

    error: str
    detail: str
    error_class: ErrorClass


class Accepted(Reply):
    """202 of `/submit?wait=false`."""

    submission_id: int
    status_url: str
    note: str | None = None


class SubmissionReply(Reply):
    """One of `/submissions`."""

    submission_id: int
    state: SubmissionState
    model_path: str
    submitted_at: datetime
    position: int | None = None
    reply: SubmitReply | FailedReply | None = None
    error: str | None = None
    detail: str | None = None
    error_class: ErrorClass | None = None


class SubmissionsReply(Reply):
    """`GET /submissions`."""

    submissions: tuple[SubmissionReply, ...]
    total: int


class ValidateReply(Reply):
    """`POST /validate`: everything a submission needs, but for the score."""

    valid: bool = True
    model_path: str
    size_bytes: int
    load_seconds: float
    elapsed_seconds: float
    note: str | None = None


class TimeReply(Reply):
    """`GET /time`: Unix seconds; None before the clock starts, or before the first submission."""

    start_time: float | None
    timeout_s: int
    last_submit_time: float | None
    end_time: float | None
    now: float
    remaining: float


class HealthReply(Reply):
    """`GET /health`."""

    status: str = "ok"
    task: str
    available_gpus: tuple[str, ...]
    queue_length: int


class ErrorReply(Reply):
    """Every reply that is not a success."""

    error: str
    detail: str
    error_class: ErrorClass
    submission_id: int | None = None
