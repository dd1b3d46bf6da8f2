"""When an answer that only repeats itself is ended."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from harness.domain.base import Frozen


class RepetitionGuard(Frozen):
    """Ends an answer whose last tokens are one pattern of at most `max_pattern` tokens, `min_count` times in a row.

    The rule is vLLM's `RepetitionDetectionParams` to the letter, so that every engine can follow it.
    """

    max_pattern: int = Field(gt=0, le=512)
    min_count: int = Field(ge=2)

    def is_caught(self, tokens: Sequence[int]) -> bool:
        """Whether `tokens` end in such a repetition."""
        for size in range(1, self.max_pattern + 1):
            length = size * self.min_count
            if length > len(tokens):
                return False
            tail = tokens[-length:]
            if all(tail[k] == tail[k - size] for k in range(size, length)):
                return True
        return False
