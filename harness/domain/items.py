"""Benchmark items, and their division into feedback and final items."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pydantic import Field

from harness.domain.base import Frozen, canonical_hash


class Item(Frozen):
    """One item of a benchmark: `id` is stable (content hash where the file has none)."""

    id: str
    question: str
    answer: str
    extra: dict[str, Any] = Field(default_factory=dict)


class Part(StrEnum):
    """Which part of the hidden items: what `/submit` answers with, or what decides the headline."""

    FEEDBACK = "feedback"
    FINAL = "final"


def parse_item(record: dict[str, Any]) -> Item:
    """The item in one JSONL record with `question` and `answer` (and maybe `id`); the rest goes to `extra`."""
    rest = {k: v for k, v in record.items() if k not in ("id", "question", "answer")}
    question, answer = str(record["question"]), str(record["answer"])
    item_id = str(record.get("id") or canonical_hash([question, answer])[:16])
    return Item(id=item_id, question=question, answer=answer, extra=rest)


def normal_question(question: str) -> str:
    """The question as far as it says whether two are the same: case, width, spaces and invisible characters aside."""
    seen = "".join(c for c in question if unicodedata.category(c) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", seen).casefold().split())


def items_hash(items: Sequence[Item]) -> str:
    """The hash of all that decides scores on `items`, whatever their order: extra fields too, such as a test."""
    parts = ([i.id, i.question, i.answer, *([i.extra] if i.extra else [])] for i in sorted(items, key=lambda i: i.id))
    return canonical_hash(list(parts))


def _rank(item_id: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}\0{item_id}".encode()).hexdigest()


def select(items: Sequence[Item], limit: int | None) -> list[Item]:
    """The first `limit` items in hash order (all, if None), in that fixed order."""
    ordered = sorted(items, key=lambda item: (_rank(item.id, "order"), item.id))
    return ordered if limit is None else ordered[:limit]


def feedback_size(n_items: int, feedback_share: float = 0.5) -> int:
    """How many of `n_items` hidden items are feedback; the others are final, and at least one is."""
    return min(int(n_items * feedback_share), max(0, n_items - 1))


def divide(items: Sequence[Item], feedback_share: float = 0.5) -> dict[str, Part]:
    """Item id -> part, by rank of a salted hash, so that both parts have a fixed size (feedback rounds down).

    With a single item it belongs to the final part and to no feedback.
    """
    ranked = sorted((item.id for item in items), key=lambda i: (_rank(i, "split"), i))
    n_feedback = feedback_size(len(ranked), feedback_share)
    return {i: Part.FEEDBACK if k < n_feedback else Part.FINAL for k, i in enumerate(ranked)}
