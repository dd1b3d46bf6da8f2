"""What a run has used, on disk: a line before a call goes out and one when it has ended, so a restart knows both."""

from __future__ import annotations

from pathlib import Path

from harness.domain.llm import LlmCall, LlmUsage
from harness.gateway.lines import Lines

CALLS_NAME = "calls.jsonl"


class Journal:
    """Lines of one run's calls: as held when they begin, as metered when they have ended."""

    def __init__(self, folder: Path) -> None:
        self._lines = _lines(folder)
        self._next = 1

    def take_up(self) -> LlmUsage | None:
        """The totals so far; `None` for a new run. Calls that a dead gateway left open are settled as they were held.

        Raises:
            InfrastructureError: the file is damaged other than by a kill.
        """
        used: LlmUsage | None = None

        def add(row: LlmCall) -> None:
            nonlocal used
            used = added(used or LlmUsage(run_id=row.run_id, is_open=True), row)

        left = self._lines.take_up(add)
        self._next = left.last_number + 1
        for row in left.open.values():
            fate = {"ended": "gateway_died", "given_up": "the gateway died", "is_estimate": True}
            lost = row.model_copy(update={"detail": {**row.detail, **fate}})
            self.ended(lost)
            add(lost)
        return used

    def has_room(self, limit: int) -> bool:
        """Whether one more call can be written down."""
        return self._next <= limit

    def number(self) -> int:
        """A number for a call, used once."""
        self._next += 1
        return self._next - 1

    def begun(self, row: LlmCall) -> None:
        """The call goes out; `row` is what it may come to at most."""
        self._lines.begun(row)

    def ended(self, row: LlmCall) -> None:
        """The call has been settled."""
        self._lines.ended(row)


def rows_of(folder: Path, skip: int = 0, limit: int | None = None) -> list[LlmCall]:
    """The calls of a run that have ended, in the order of their end, without the first `skip`, at most `limit`."""
    return _lines(folder).rows(skip, limit)


def added(used: LlmUsage, row: LlmCall) -> LlmUsage:
    """The totals with one more call."""
    is_refused = "refused" in row.detail
    is_billed = not is_refused and row.detail.get("is_billed", True)
    return used.model_copy(
        update={
            "requests": used.requests + int(is_billed),
            "refused": used.refused + int(is_refused),
            "input_tokens": used.input_tokens + row.input_tokens,
            "cached_tokens": used.cached_tokens + row.cached_tokens,
            "cache_write_tokens": used.cache_write_tokens + row.cache_write_tokens,
            "output_tokens": used.output_tokens + row.output_tokens,
            "cost_usd": used.cost_usd + row.cost_usd,
        }
    )


def _lines(folder: Path) -> Lines[LlmCall]:
    return Lines(folder / CALLS_NAME, LlmCall)
