"""One row for each prompt of a request: its tokens, its own cap, end and seed, and the order they are run in."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.domain.prompts import Prompt
from harness.domain.sampling import RepetitionGuard
from harness.inference.engines.prompts import token_ids
from harness.inference.engines.stopping import StopRule
from harness.inference.wire import Completion, Sampling

# Called with the tokens of one row so far: whether the row ends here.
IsEnd = Callable[[list[int]], bool]


@dataclass
class Row:
    """One prompt: `tokens` grows until an end token, a stop string, `cap` or the guard (then `is_truncated`)."""

    prompt: Sequence[int]
    cap: int
    seed: int = 0
    guard: RepetitionGuard | None = None
    tokens: list[int] = field(default_factory=list)
    is_truncated: bool = False
    is_done: bool = False

    def add(self, token: int, is_end: IsEnd) -> None:
        """Takes the next token, unless the row has ended."""
        if self.is_done:
            return
        self.tokens.append(token)
        if is_end(self.tokens):
            self.is_done = True
        elif len(self.tokens) >= self.cap or (self.guard is not None and self.guard.is_caught(self.tokens)):
            self.is_done = self.is_truncated = True


def make_rows(prompts: Sequence[Prompt], tokenizer: Any, sampling: Sampling, context: int | None) -> list[Row]:
    """A row for each prompt, in order.

    A prompt that leaves no room in the `context` is not shortened: its row has no cap left.
    """
    rows = []
    for prompt in prompts:
        ids = token_ids(tokenizer, prompt)
        room = sampling.max_tokens if context is None else min(sampling.max_tokens, context - len(ids))
        rows.append(Row(prompt=ids, cap=room, guard=sampling.repetition_guard))
    _set_seeds(rows, sampling.seed)
    return rows


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows that can be answered, by content: the order of a request decides nothing."""
    return sorted((row for row in rows if row.cap > 0), key=lambda row: (len(row.prompt), tuple(row.prompt)))


def completion_of(row: Row, rule: StopRule) -> Completion:
    """What a row that has ended says."""
    return Completion(
        text=rule.text(row.tokens),
        prompt_tokens=len(row.prompt),
        output_tokens=len(row.tokens),
        is_truncated=row.is_truncated or row.cap <= 0,
    )


def _set_seeds(rows: Sequence[Row], seed: int) -> None:
    """Seeds by content; the n-th of several equal prompts gets a seed of its own."""
    seen: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        key = tuple(row.prompt)
        digest = hashlib.sha256(f"{seed}\0{seen[key]}\0{key}".encode()).digest()
        row.seed = int.from_bytes(digest[:8], "big") >> 1
        seen[key] += 1
