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
# An agent that says a word a line writes fewer; an empty line costs its writer one byte.
MAX_LINES = 500_000
CHUNK = 2**16


@dataclass
class Tally:
    """What of the logs could not be read."""

    lines: int = 0
    broken: int = 0
    is_cut: bool = False


def objects(file: BinaryIO, tally: Tally) -> Iterator[JsonObject]:
    """The objects that the lines of `file` hold, as long as all files together have no more than MAX_LINES."""
    while line := file.readline(MAX_LINE):
        if tally.lines >= MAX_LINES:
            tally.is_cut = True
            return
        tally.lines += 1
        is_whole = line.endswith(b"\n") or len(line) < MAX_LINE
        if not is_whole:
            _skip_line(file)
        value = _object(line) if is_whole else None
        if value is not None:
            yield value
        elif line.strip():
            tally.broken += 1


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
    # Agents print other words too.
    if not raw.lstrip().startswith(b"{"):
        return None
    try:
        value = parsed(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
