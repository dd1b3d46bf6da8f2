"""What a run has used, on disk: a line before a call goes out and one when it has ended, so a restart knows both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.domain.llm import LlmCall, LlmUsage
from harness.errors import InfrastructureError

CALLS_NAME = "calls.jsonl"
BEGUN, ENDED = "begun", "ended"


class Journal:
    """Append-only lines of one run: `{"begun": LlmCall as held}` and `{"ended": LlmCall as metered}`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CALLS_NAME
        self._next = 1

    def take_up(self) -> LlmUsage | None:
        """The totals so far; `None` for a new run. Calls that a dead gateway left open are settled as they were held.

        Raises:
            InfrastructureError: the file is damaged other than at its end.
        """
        rows, begun = list[LlmCall](), dict[int, LlmCall]()
        for kind, row in _lines(self._path):
            self._next = max(self._next, row.number + 1)
            if kind == BEGUN:
                begun[row.number] = row
            else:
                begun.pop(row.number, None)
                rows.append(row)
        self._end_torn_line()
        for row in begun.values():
            lost = row.model_copy(update={"detail": {**row.detail, "ended": "gateway_died", "is_estimate": True}})
            self.ended(lost)
            rows.append(lost)
        if not rows:
            return None
        used = LlmUsage(run_id=rows[0].run_id, is_open=True)
        for row in rows:
            used = added(used, row)
        return used

    def number(self) -> int:
        """A number for a call, used once."""
        self._next += 1
        return self._next - 1

    def begun(self, row: LlmCall) -> None:
        """The call goes out; `row` is what it may come to at most."""
        self._write(BEGUN, row)

    def ended(self, row: LlmCall) -> None:
        """The call has been settled."""
        self._write(ENDED, row)

    def _write(self, kind: str, row: LlmCall) -> None:
        # Opened each time: a run that has ended leaves no descriptor behind, whenever its last call settles.
        with self._path.open("ab") as file:
            file.write(json.dumps({kind: row.model_dump(mode="json")}, separators=(",", ":")).encode() + b"\n")

    def _end_torn_line(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read(1) != b"\n":
                file.write(b"\n")


def rows_of(folder: Path, skip: int = 0, limit: int | None = None) -> list[LlmCall]:
    """The calls of a run that have ended, in the order of their end, without the first `skip`, at most `limit`."""
    ended = (row for kind, row in _lines(folder / CALLS_NAME) if kind == ENDED)
    return list(islice(ended, skip, None if limit is None else skip + limit))


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
            "cache_write_tokens": used.cache_write_tokens + row.detail.get("cache_write_tokens", 0),
            "output_tokens": used.output_tokens + row.output_tokens,
            "cost_usd": used.cost_usd + row.cost_usd,
        }
    )


def _lines(path: Path) -> Iterator[tuple[str, LlmCall]]:
    """Every whole line; a line that a kill has torn is passed over, wherever a later start has gone on behind it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        try:
            ((kind, row),) = value.items()
            yield kind, LlmCall.model_validate(row)
        except (ValueError, AttributeError, TypeError, ValidationError) as error:
            raise InfrastructureError(f"{path}, line {number}, is no call", "Move the file away.") from error
