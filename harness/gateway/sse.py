"""Server-sent events out of a stream that comes in pieces of any size; the bytes of each are kept as they came."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

# A Responses stream ends with one event that repeats the whole answer.
MAX_EVENT_BYTES = 8 * 2**20
# An empty line ends an event. The specification knows lines that end in a bare \r too; no provider sends them.
_END = re.compile(rb"\r\n\r\n|\n\n|\n\r\n")
# What `_END` may begin with in the bytes before a new piece.
_OVERLAP = 4


@dataclass(frozen=True)
class Event:
    """One event: its bytes with the empty line, and its data as a JSON object (`None` if it is none)."""

    raw: bytes
    value: dict[str, Any] | None


class EventSplitter:
    """Cuts a stream into events. One larger than the bound is handed on in pieces without a value."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._max = max_event_bytes
        self._is_oversized = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are whole now."""
        self._buffer += piece
        found = []
        while (match := _END.search(self._buffer, max(0, self._searched - _OVERLAP))) is not None:
            raw = bytes(self._buffer[: match.end()])
            del self._buffer[: match.end()]
            self._searched = 0
            found.append(Event(raw, None if self._is_oversized else _value(raw)))
            self._is_oversized = False
        self._searched = len(self._buffer)
        if len(self._buffer) > self._max:
            found.append(Event(bytes(self._buffer[:-_OVERLAP]), None))
            del self._buffer[:-_OVERLAP]
            self._searched, self._is_oversized = 0, True
        return found

    def rest(self) -> list[Event]:
        """What is left when the stream has ended: an event that lacks its empty line, perhaps cut off."""
        raw = bytes(self._buffer)
        self._buffer.clear()
        return [Event(raw, None if self._is_oversized else _value(raw))] if raw else []


def _value(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].removeprefix(b" ") for line in re.split(rb"\r?\n", raw) if line.startswith(b"data:")]
    return json_object(b"\n".join(lines))


def json_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in `raw`; `None` for anything else."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
