"""The life of a run and of a submission: phases, verdicts, states."""

from __future__ import annotations

from enum import StrEnum

from harness.domain.base import Frozen

# Kind of the event that an agent was taken up again after an early end.
CONTINUATION = "continuation"


class RunKind(StrEnum):
    """What a run is: an agent at work, or a checkpoint of somebody's that is only scored (`harness grade`)."""

    AGENT = "agent"
    GRADE = "grade"


class Phase(StrEnum):
    """Where a run is; written before the phase begins, so that a dead harness can be taken up there."""

    PLANNED = "planned"
    PREPARING = "preparing"
    BASELINE = "baseline"
    AGENT = "agent"
    FINISHING = "finishing"
    COLLECTING = "collecting"
    ENDED = "ended"


class Verdict(StrEnum):
    """What a run ends in: exactly one."""

    GRADED = "graded"
    NO_SUBMISSION = "no_submission"
    AGENT_FAILED = "agent_failed"
    INFRA_VOID = "infra_void"
    INTERRUPTED = "interrupted"


class EndedBy(StrEnum):
    """How the agent's part ended, beside the verdict."""

    FINISHED = "finished"
    DEADLINE = "deadline"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    BUDGET = "budget"
    STOPPED = "stopped"
    INFRASTRUCTURE = "infrastructure"


class SubmissionState(StrEnum):
    """Where a submission is."""

    ADMITTING = "admitting"
    QUEUED = "queued"
    SCORING = "scoring"
    SCORED = "scored"
    REJECTED = "rejected"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (SubmissionState.SCORED, SubmissionState.REJECTED, SubmissionState.FAILED)


class Owner(Frozen):
    """The harness process that drives a run; enough to tell a dead one from a recycled pid."""

    pid: int
    started_ticks: int
    boot_id: str
    host: str


def verdict_of(
    *, has_scored: bool, has_failed_evaluation: bool, ended_by: EndedBy, has_broken_submission: bool = False
) -> Verdict:
    """The verdict of a run whose agent part ended as `ended_by` (architecture.md, "exactly one verdict").

    A run with a scored submission is `graded` however it ended; `stopped` without one is `interrupted`;
    submissions that the grader failed to score (its own trouble) and no score at all make the run void;
    without such, a submission that could not be scored by its own doing makes it the agent's failure.
    """
    if has_scored:
        return Verdict.GRADED
    if ended_by is EndedBy.STOPPED:
        return Verdict.INTERRUPTED
    if ended_by is EndedBy.INFRASTRUCTURE or has_failed_evaluation:
        return Verdict.INFRA_VOID
    if has_broken_submission or ended_by in (EndedBy.CRASH, EndedBy.OUT_OF_MEMORY, EndedBy.DISK_FULL):
        return Verdict.AGENT_FAILED
    return Verdict.NO_SUBMISSION
