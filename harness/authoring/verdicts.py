"""What a contract suite says of a benchmark's or an agent's folder: a verdict per check, reason and fix."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from harness.domain.base import Frozen

Kind = Literal["benchmark", "agent"]


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class CheckResult(Frozen):
    """One check: `what` was seen, and the `fix` where it failed."""

    name: str
    outcome: Outcome
    what: str
    fix: str = ""


class Skipped(Frozen):
    """A check that does not apply, and why."""

    reason: str


class SuiteReport(Frozen):
    """All checks of one folder, in their order."""

    kind: Kind = "benchmark"
    name: str
    path: str
    checks: tuple[CheckResult, ...]

    @property
    def has_passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(check for check in self.checks if check.outcome is Outcome.FAILED)
