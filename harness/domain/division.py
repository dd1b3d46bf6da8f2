"""Public and hidden halves of items that came in one file, by a fixed hash of each question."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from harness.domain.items import normal_question
from harness.errors import UsageError

# Part of every division ever made: another salt would hand out what was hidden.
SALT = "public or hidden"
_RANGE = 2**64


def hidden_flags(questions: Sequence[str], hidden_share: float) -> tuple[bool, ...]:
    """For each question whether its item is hidden.

    Equal questions (see `normal_question`) are on one side. What side that is depends on the question alone, so neither
    order nor other items matter; only where one side would be empty the nearest question goes over to it.

    Raises:
        UsageError: there are fewer than two different questions.
    """
    places = {question: _place(normal_question(question)) for question in set(questions)}
    different = sorted(set(places.values()))
    if len(different) < 2:
        raise UsageError(
            f"{len(questions)} items with {len(different)} different questions cannot be divided",
            "Public and hidden items need at least one question each.",
        )
    limit = int(hidden_share * _RANGE)
    limit = min(max(limit, different[0] + 1), different[-1])
    return tuple(places[question] < limit for question in questions)


def _place(normal: str) -> int:
    digest = hashlib.sha256(f"{SALT}\0{normal}".encode("utf-8", errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
