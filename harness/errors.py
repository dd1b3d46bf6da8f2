"""Every error the harness raises, and the one table that says what each of them means.

HarnessError                      what failed, and `fix`: what to do next
├── UsageError                    the request cannot be meant: unknown name, bad option, bad config file
├── PrerequisiteError             this machine lacks something (Docker, an image, a model, disk)
│   └── IsolationError            a probe showed that the sandbox is not tight here
├── InfrastructureError           Docker, GPU, hub or disk broke under a run: never the agent's doing
│   ├── GraderUnavailable         the grader does not answer
│   ├── ServiceUnavailable        inference or scorer does not answer
│   │   └── TooSlow               the engine ran into its wall limit
│   ├── NoGpuMemory               the GPU has too little free memory for the engine; carries the numbers
│   └── EvaluationFailed          an evaluation gave no score
│       └── EngineBroken          the engine can no longer be trusted; only a new one helps
├── LoadFailed                    an admitted checkpoint cannot be served by the engine: the agent's own doing
├── WorkspaceSpoiled              an agent left its workspace so that its run cannot go on: its own doing
├── RequestError                  an agent's (or admin's) HTTP request is refused; carries status and error class
│   ├── NotFound, PathRefused, Conflict, RunEnded, TooLarge, Inadmissible, OverQuota, Unready
├── LlmRefusal                    the gateway refuses an LLM call; carries status and kind
├── ConnectRefusal                the gateway's proxy refuses a connection; carries the status
└── Interrupted                   a person stopped it
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ErrorClass(StrEnum):
    """The closed list of what an agent can be told about a failure; an engine's own words stay in the record."""

    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    PATH_OUTSIDE_WORKSPACE = "path_outside_workspace"
    DUPLICATE = "duplicate"
    RUN_NOT_STARTED = "run_not_started"
    RUN_ENDED = "run_ended"
    TOO_LARGE = "too_large"
    NOT_A_REGULAR_FILE = "not_a_regular_file"
    FORBIDDEN_FILE = "forbidden_file"
    NO_WEIGHTS = "no_weights"
    BAD_SAFETENSORS = "bad_safetensors"
    TENSOR_MISMATCH = "tensor_mismatch"
    NON_FINITE_WEIGHTS = "non_finite_weights"
    CHANGED_WHILE_COPIED = "changed_while_copied"
    OVER_QUOTA = "over_quota"
    TOO_MANY_REQUESTS = "too_many_requests"
    LOAD_FAILED = "load_failed"
    TOO_SLOW = "too_slow"
    UNSCORABLE = "unscorable"
    NO_GPU_MEMORY = "no_gpu_memory"
    EVALUATION_FAILED = "evaluation_failed"
    GRADER_TROUBLE = "grader_trouble"


class HarnessError(Exception):
    """Base of all: `what` failed, and `fix`, what to do next."""

    exit_code = 4

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}. {self.fix}" if self.fix else self.what


class UsageError(HarnessError):
    """The request cannot be meant."""

    exit_code = 2


class UnknownRun(UsageError):
    """The grader has no such run."""


class PrerequisiteError(HarnessError):
    """This machine lacks something the request needs."""

    exit_code = 3


class IsolationError(PrerequisiteError):
    """A probe showed that the sandbox is not tight on this machine."""


class InfrastructureError(HarnessError):
    """Something under the run broke; never the agent's doing."""


class GraderUnavailable(InfrastructureError):
    """The grader does not answer."""


class ServiceUnavailable(InfrastructureError):
    """An inference or scorer service does not answer, or broke off."""


class TooSlow(ServiceUnavailable):
    """The engine ran into its wall limit; whose doing that is, only the base model on the same services can tell."""


class EvaluationFailed(InfrastructureError):
    """An evaluation gave no score; `what` goes to the record only."""


class EngineBroken(EvaluationFailed):
    """The engine is in a state that nothing is known of; its service ends itself, and a new one is started."""


class NoGpuMemory(InfrastructureError):
    """The engine needs `needed_bytes` of a GPU that has `free_bytes` left: somebody else holds the rest."""

    def __init__(self, free_bytes: int, needed_bytes: int) -> None:
        gib = 2**30
        super().__init__(
            f"the engine needs {needed_bytes / gib:.1f} GiB of GPU memory, {free_bytes / gib:.1f} GiB are free, "
            f"{(needed_bytes - free_bytes) / gib:.1f} GiB are missing",
            "End the processes that hold GPU memory.",
        )
        self.free_bytes = free_bytes
        self.needed_bytes = needed_bytes


class LoadFailed(HarnessError):
    """The engine cannot serve this checkpoint; `what` goes to the record only."""


class WorkspaceSpoiled(HarnessError):
    """An agent left its workspace so that its run cannot go on."""


class Interrupted(HarnessError):
    """A person stopped it."""

    exit_code = 130


class RequestError(HarnessError):
    """A request to the grader is refused: HTTP `status`, `error_class` of the closed list, `retry_after_s` if any."""

    status = 400
    default_class = ErrorClass.BAD_REQUEST

    def __init__(
        self,
        what: str,
        fix: str = "",
        *,
        error_class: ErrorClass | None = None,
        retry_after_s: float | None = None,
        submission_id: int | None = None,
    ) -> None:
        super().__init__(what, fix)
        self.error_class = error_class or self.default_class
        self.retry_after_s = retry_after_s
        self.submission_id = submission_id


class NotFound(RequestError):
    status = 404
    default_class = ErrorClass.NOT_FOUND


class PathRefused(RequestError):
    default_class = ErrorClass.PATH_OUTSIDE_WORKSPACE


class Conflict(RequestError):
    status = 409
    default_class = ErrorClass.DUPLICATE


class RunEnded(RequestError):
    status = 410
    default_class = ErrorClass.RUN_ENDED


class TooLarge(RequestError):
    status = 413
    default_class = ErrorClass.TOO_LARGE


class Inadmissible(RequestError):
    """A checkpoint that may not be scored: always names the file and the reason."""

    status = 422
    default_class = ErrorClass.FORBIDDEN_FILE


class OverQuota(RequestError):
    status = 429
    default_class = ErrorClass.OVER_QUOTA


class Unready(RequestError):
    """The grader's own trouble; never a score."""

    status = 503
    default_class = ErrorClass.GRADER_TROUBLE


class LlmRefusal(HarnessError):
    """An LLM call is refused by the gateway: HTTP `status`, `kind` as the agent reads it, `retry_after_s` if any."""

    def __init__(self, status: int, kind: str, what: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(what)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s


class ConnectRefusal(HarnessError):
    """A connection is refused by the gateway's proxy: HTTP `status`."""

    def __init__(self, status: int, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.status = status


@dataclass(frozen=True)
class Meaning:
    """What an error class means for a run: the verdict if nothing was scored, and whether it is retried."""

    verdict: str
    is_retried: bool


# One table for every failure that can end or mark a run (architecture.md, "exactly one verdict").
MEANINGS: dict[type[HarnessError], Meaning] = {
    UsageError: Meaning("infra_void", False),
    PrerequisiteError: Meaning("infra_void", False),
    IsolationError: Meaning("infra_void", False),
    InfrastructureError: Meaning("infra_void", False),
    GraderUnavailable: Meaning("infra_void", True),
    ServiceUnavailable: Meaning("infra_void", True),
    EvaluationFailed: Meaning("infra_void", True),
    NoGpuMemory: Meaning("infra_void", True),
    LoadFailed: Meaning("agent_failed", False),
    WorkspaceSpoiled: Meaning("agent_failed", False),
    Interrupted: Meaning("interrupted", False),
}


def meaning_of(error: HarnessError) -> Meaning:
    """The table's row for `error`, by its nearest listed class."""
    for kind in type(error).__mro__:
        if kind in MEANINGS:
            return MEANINGS[kind]
    return Meaning("infra_void", False)
