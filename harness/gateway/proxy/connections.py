"""What a run asked of the proxy, on disk: every allowed connection has a line, and the first so many refused ones."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

from harness.domain.base import now_utc
from harness.domain.connections import Connection, ConnectionVerdict
from harness.gateway.lines import Lines

CONNECTIONS_NAME = "connections.jsonl"
MAX_HOST = 253


class ConnectionLog:
    """Lines of one run: one when a connection is made, one when it has ended; what is refused has the second alone."""

    def __init__(self, folder: Path) -> None:
        self._lines = _lines(folder)
        self._next = 1
        self._refused = self._allowed = 0

    def take_up(self) -> None:
        """Goes on where an earlier process ended; of what it left open nobody knows how much went through.

        Raises:
            InfrastructureError: the file is damaged.
        """
        counts = Counter[ConnectionVerdict]()

        def add(row: Connection) -> None:
            counts[row.verdict] += 1

        left = self._lines.take_up(add)
        self._next = left.last_number + 1
        for row in left.open.values():
            lost = row.model_copy(update={"reason": "the gateway died"})
            self._lines.ended(lost)
            add(lost)
        self._refused = counts["refused"]
        self._allowed = counts.total() - self._refused

    def has_room(self, limit: int) -> bool:
        """Whether one more connection can be written down."""
        return self._allowed < limit

    def begun(self, host: str, port: int) -> Connection:
        """A connection is about to be made."""
        self._allowed += 1
        row = self._row(host, port, "allowed", "", now_utc())
        self._lines.begun(row)
        return row

    def ended(self, row: Connection) -> None:
        """It has ended; `row` is what is known of it now."""
        self._lines.ended(row.model_copy(update={"seconds": _since(row.at)}))

    def refused(self, host: str, port: int, reason: str, limit: int) -> None:
        """A request that was refused; past the limit it leaves no line."""
        if self._refused < limit:
            self._refused += 1
            self._lines.ended(self._row(host, port, "refused", reason, now_utc()))

    def _row(self, host: str, port: int, verdict: ConnectionVerdict, reason: str, at: datetime) -> Connection:
        self._next += 1
        shown = host[:MAX_HOST]
        return Connection(number=self._next - 1, at=at, host=shown, port=port, verdict=verdict, reason=reason)


def connections_of(folder: Path, skip: int = 0, limit: int | None = None) -> list[Connection]:
    """The connections of a run that have ended, in that order, without the first `skip`, at most `limit`."""
    return _lines(folder).rows(skip, limit)


def _lines(folder: Path) -> Lines[Connection]:
    return Lines(folder / CONNECTIONS_NAME, Connection)


def _since(at: datetime) -> float:
    return round(max(0.0, (now_utc() - at).total_seconds()), 3)
