"""JSON from untrusted bytes: no key twice, no huge numbers, no crash on deep nesting; the caller bounds the size."""

from __future__ import annotations

import json
from typing import Any

# Tokenizers write int(1e30) for "no limit"; anything much longer only costs time.
MAX_INTEGER_CHARACTERS = 40


def parse_json(raw: bytes) -> Any:
    """The value that `raw` holds.

    Raises:
        ValueError: not UTF-8, not JSON, a key twice in an object, a huge integer, or nested too deeply.
    """
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_int=_bounded_int)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON (at character {error.pos})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (at byte {error.start})") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("the same key twice in one object")
    return value


def _bounded_int(text: str) -> int | float:
    if text == "-0":
        # No integer has a sign without a value; other readers of JSON refuse it where a size belongs.
        return -0.0
    if len(text) > MAX_INTEGER_CHARACTERS:
        raise ValueError("an integer of too many digits")
    return int(text)
