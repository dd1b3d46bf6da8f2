"""What the grader and a scorer service say to each other over its unix socket."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.specs import EvalMode


class ScoreItem(Frozen):
    """One item with the model's answer to it."""

    item_id: str
    question: str
    reference: str
    answer: str
    extra: dict[str, Any] = Field(default_factory=dict)


class ScoreRequest(Frozen):
    """`POST /score`: one evaluation, done in a fresh process that is gone afterwards."""

    eval_mode: EvalMode
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


class ErrorReply(Frozen):
    """Any non-200 reply: `kind` is `bad_request`, `evaluator` (eval.py raised) or `timeout`."""

    kind: str
    detail: str
