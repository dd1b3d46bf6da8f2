"""The lines of a hostile log, one JSON object each: in bounded memory; a broken one is counted and skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from harness.trajectory.values import JsonObject, parsed

# Agents shorten what a command printed long before this.
MAX_LINE = 4 * 2**20
# A log that is one document is read whole.
MAX_DOCUMENT = 32 * 2**20
CHUNK = 2**16


@dataclass
class Tally:
    """What of the logs could not be read."""

    lines: int = 0
    broken: int = 0


def objects(file: BinaryIO, tally: Tally) -> Iterator[JsonObject]:
    """The objects that the lines of `file` hold; empty lines are nothing."""
    while line := file.readline(MAX_LINE):
        is_whole = line.endswith(b"\n") or len(line) < MAX_LINE
        if not is_whole:
            _skip_line(file)
        if not line.strip():
            continue
        tally.lines += 1
        value = _object(line) if is_whole else None
        if value is None:
            tally.broken += 1
        else:
            yield value


def document(file: BinaryIO, tally: Tally) -> JsonObject:
    """The one object that `file` holds; an empty one if it does not, or is too large."""
    raw = file.read(MAX_DOCUMENT + 1)
    tally.lines += 1
    value = _object(raw) if len(raw) <= MAX_DOCUMENT else None
    if value is None:
        tally.broken += 1
    return value or {}


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(CHUNK)) and not rest.endswith(b"\n"):
        pass


def _object(raw: bytes) -> JsonObject | None:
    try:
        value = parsed(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
