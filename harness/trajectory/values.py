"""JSON values of a hostile log: parsed within bounds, asked for by name, made fit to be written down again."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

JsonObject = dict[str, Any]

# A value needs some ten times the memory of its text at worst (`[[],[],...`): so many may be in one document.
MAX_VALUES = 1_000_000
MAX_DIGITS = 18
MAX_DEPTH = 24
MAX_ITEMS = 1_000
MAX_NAME = 200
# Seconds since 1970 beyond which a number is taken for milliseconds (the year 5138 in seconds).
MIN_MILLISECONDS = 10**11


def parsed(raw: bytes, max_values: int = MAX_VALUES) -> Any:
    """The JSON value in `raw`; what is not UTF-8 in it is replaced, a number without a finite value is None.

    Raises:
        ValueError: not JSON, nested too deeply, or too many values.
    """
    if sum(raw.count(mark) for mark in b"[{,:") > max_values:
        raise ValueError("too many values")
    try:
        return json.loads(
            raw.decode("utf-8", "replace"), parse_float=_finite, parse_int=_bounded, parse_constant=lambda _: None
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _bounded(text: str) -> int | None:
    return int(text) if len(text) <= MAX_DIGITS else None


def part(value: Any, *names: str) -> JsonObject:
    """The object below `names`; an empty one where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def parts(value: Any, name: str) -> list[JsonObject]:
    """The objects in the list called `name`; whatever else is in it is passed over."""
    found = value.get(name) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def text(value: Any, *names: str) -> str:
    """The first text under one of `names`; empty where there is none."""
    found = (value.get(name) for name in names) if isinstance(value, dict) else iter(())
    return next((item for item in found if isinstance(item, str) and item), "")


def count(value: Any, *names: str) -> int | None:
    """The first number under one of `names` that is a whole one and not negative."""
    found = (value.get(name) for name in names) if isinstance(value, dict) else iter(())
    return next((item for item in found if type(item) is int and item >= 0), None)


def dollars(value: Any, name: str) -> float | None:
    """The amount called `name`, if it is one."""
    found = value.get(name) if isinstance(value, dict) else None
    is_amount = isinstance(found, int | float) and not isinstance(found, bool) and found >= 0
    return float(found) if is_amount and found is not None else None


def words(content: Any) -> str:
    """The text of a message's content: a string, or blocks of which some are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    found = (item if isinstance(item, str) else text(item, "text") for item in content)
    return "\n".join(one for one in found if one)


def arguments(value: Any) -> JsonObject:
    """A call's arguments: an object, or the text of one; anything else under the name `arguments`."""
    if isinstance(value, str):
        try:
            value = parsed(value.encode("utf-8", "replace"))
        except ValueError:
            return {"arguments": value}
    if isinstance(value, dict):
        return value
    return {} if value is None else {"arguments": value}


def timestamp(value: Any) -> str | None:
    """ISO 8601 in UTC of Unix seconds, milliseconds, or a text that says a time; one without a zone counts as UTC."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > MIN_MILLISECONDS else value
            return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        pass
    return None


def clean(words: str) -> str:
    """`words` as UTF-8 can have it: lone surrogates are replaced."""
    return words if words.isascii() else words.encode("utf-8", "replace").decode()


def pruned(value: Any, depth: int = MAX_DEPTH) -> Any:
    """`value` with clean texts, cut off where it is nested deeper than `depth` or has very many items."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        if depth <= 0:
            return "..."
        items = list(value.items())[:MAX_ITEMS]
        return {clean(str(name))[:MAX_NAME]: pruned(item, depth - 1) for name, item in items}
    if isinstance(value, list):
        return "..." if depth <= 0 else [pruned(item, depth - 1) for item in value[:MAX_ITEMS]]
    return value
