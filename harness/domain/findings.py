"""Integrity findings: what was noticed about a run, with evidence; they stand beside a score and never change it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from harness.domain.base import Frozen

Severity = Literal["info", "warning", "serious"]


class Finding(Frozen):
    """One thing noticed about a run, or about one of its submissions, by a tool of this version; `evidence` is JSON."""

    submission_number: int | None = None
    kind: str
    severity: Severity
    detail: str
    evidence: dict[str, Any] = Field(default_factory=dict)
    tool_version: str = ""


class StoredFinding(Finding):
    """A finding as it is kept: appended, never changed."""

    at: datetime
