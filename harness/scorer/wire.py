"""What the grader and a scorer service say to each other over its unix socket."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.prompts import Prompt
from harness.domain.specs import EvalMode


class ScoreItem(Frozen):
    """One item with the model's answer to it; `sample` numbers the answers to one item from 0."""

    item_id: str
    sample: int = Field(0, ge=0)
    question: str
    reference: str
    answer: str
    extra: dict[str, Any] = Field(default_factory=dict)


class AskedItem(Frozen):
    """One item whose prompt the evaluator itself makes."""

    item_id: str
    question: str
    extra: dict[str, Any] = Field(default_factory=dict)


class PromptsRequest(Frozen):
    """`POST /prompts`: what to ask the model, in modes whose evaluator decides that; in a fresh process too.

    `chat` False asks for plain texts, as for a base model, whatever template the model has.
    """

    eval_mode: EvalMode
    opencompass_dataset: str | None = None
    chat: bool = True
    items: tuple[AskedItem, ...]
    timeout_s: float = Field(600, gt=0)


class PromptsReply(Frozen):
    """Prompts in the order of the items, and how completions are drawn; None where the benchmark's config decides.

    The benchmark's own stop strings belong to its own prompts: only those of `stop` end a completion here.
    """

    prompts: tuple[Prompt, ...]
    max_tokens: int | None = Field(None, gt=0)
    stop: tuple[str, ...] = ()


class ScoreRequest(Frozen):
    """`POST /score`: one evaluation, done in a fresh process that is gone afterwards.

    Several answers to one item (`samples`) are several entries of `items`, next to each other.
    """

    eval_mode: EvalMode
    opencompass_dataset: str | None = None
    items: tuple[ScoreItem, ...]
    timeout_s: float = Field(600, gt=0)


class ItemVerdict(Frozen):
    """`score` in [0, 1]; `is_extracted` False where no answer could be read out of the output."""

    item_id: str
    score: float
    is_extracted: bool = True


class ScoreReply(Frozen):
    """Verdicts in the order of the items, one for each."""

    verdicts: tuple[ItemVerdict, ...]


class Job(Frozen):
    """What one process of the service is handed: one of the two requests."""

    score: ScoreRequest | None = None
    prompts: PromptsRequest | None = None


class ErrorReply(Frozen):
    """Any non-200 reply: `kind` is `bad_request`, `evaluator` (eval.py raised) or `timeout`."""

    kind: str
    detail: str
