"""What the grader and an inference service say to each other over its unix socket."""

from __future__ import annotations

from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.prompts import Prompt
from harness.domain.sampling import RepetitionGuard
from harness.domain.specs import EngineSpec

# Longer than any load; whoever generates says what the answers can need.
DEFAULT_LIMIT_S = 3_600.0


class Sampling(Frozen):
    """How completions are drawn; temperature 0 is greedy. A stop string ends a completion and is cut off."""

    max_tokens: int = Field(gt=0)
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    repetition_guard: RepetitionGuard | None = None


class LoadRequest(Frozen):
    """`POST /load`: serve the weights in this folder (a complete Hugging Face folder, as the service sees it)."""

    path: str
    limit_s: float = Field(DEFAULT_LIMIT_S, gt=0)


class LoadReply(Frozen):
    """Idempotent: loading what is loaded already costs nothing."""

    load_seconds: float
    is_reused: bool


class SleepReply(Frozen):
    """`POST /sleep`: GPU memory is given up until the next load. Idempotent."""

    sleep_seconds: float


class GenerateRequest(Frozen):
    """`POST /generate`: one whole batch, answered in its order.

    An engine that is not done after `limit_s` cannot be stopped: its service ends itself, and a new one is started.
    """

    prompts: tuple[Prompt, ...]
    sampling: Sampling
    limit_s: float = Field(DEFAULT_LIMIT_S, gt=0)


class Completion(Frozen):
    """One answer. `is_truncated`: the token cap ended it."""

    text: str
    prompt_tokens: int
    output_tokens: int
    is_truncated: bool


class GenerateReply(Frozen):
    """Completions in the order of the prompts."""

    completions: tuple[Completion, ...]
    generate_seconds: float


class Health(Frozen):
    """`GET /health`: answers at once, also while the engine starts; `ready` once `/load` needs no more waiting."""

    ready: bool


class EngineInfo(Frozen):
    """`GET /info`: what the engine really is; kept with every evaluation."""

    spec: EngineSpec
    versions: dict[str, str]
    device_name: str
    # What decides answers beside the spec.
    settings: dict[str, str] = Field(default_factory=dict)


class MemoryShortage(Frozen):
    """With `kind` `no_memory`: what one GPU has free and what the engine needs of it."""

    free_bytes: int = Field(ge=0)
    needed_bytes: int = Field(ge=0)


class ErrorReply(Frozen):
    """Any non-200 reply: `kind` is `load_failed`, `no_memory`, `bad_request` or `engine`.

    `detail` goes to the record only.
    """

    kind: str
    detail: str
    shortage: MemoryShortage | None = None
