"""The base of every frozen model, and the canonical hash used for digests."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """An immutable value; unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Numbered(Frozen):
    """One of many of its kind, in a run; its number is used once."""

    number: int = Field(ge=0)


def canonical_hash(value: Any) -> str:
    """Hex SHA-256 of `value` as canonical JSON (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def now_utc() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)
