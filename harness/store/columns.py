"""Column types: aware UTC times and JSON values, both as text that `sqlite3` on a terminal can read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator

# What an agent or an engine can make arbitrarily long is cut here; no real path or message comes near.
MAX_PATH_CHARACTERS = 4_096
MAX_DETAIL_CHARACTERS = 100_000


def time_text(at: datetime) -> str:
    """UTC with microseconds, e.g. `2026-01-02T03:04:05.000006Z`: sorts as text, and SQLite's date functions read it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept as UTC text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("times in the store are aware")
        return time_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


class JsonText(TypeDecorator[Any]):
    """Any JSON value, kept as canonical JSON text; None is NULL.

    Not SQLAlchemy's JSON: a column declared so has numeric affinity in SQLite, and turns `"007"` into 7.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)
