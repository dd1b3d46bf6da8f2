"""What a call used, as a provider reports it; numbers that cannot be meant are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.domain.llm import MAX_TOKENS

# Few tokens are shorter than this on average; an estimate must not be too small.
BYTES_PER_TOKEN = 3


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. Input includes what was read from a cache and written to one; output includes reasoning."""

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    # Those of the cache writes that are kept for an hour, which costs more.
    cache_hour_tokens: int = 0


def estimated_tokens(size_bytes: int) -> int:
    """Tokens that so many bytes of text or JSON are likely to be, rather too many than too few."""
    return -(-size_bytes // BYTES_PER_TOKEN)


def count(mapping: Any, name: str) -> int | None:
    """The number of tokens under `name`; `None` where there is none that could be meant."""
    value = mapping.get(name) if isinstance(mapping, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
        return None
    return value


def part(mapping: Any, name: str) -> dict[str, Any]:
    """The object under `name`; empty where there is none."""
    value = mapping.get(name) if isinstance(mapping, dict) else None
    return value if isinstance(value, dict) else {}


def parts(mapping: Any, name: str) -> list[dict[str, Any]]:
    """The objects in the list under `name`."""
    value = mapping.get(name) if isinstance(mapping, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_bytes(mapping: Any, *names: str) -> int:
    """How many bytes of text lie under `names`."""
    values = (mapping.get(name) for name in names) if isinstance(mapping, dict) else ()
    return sum(len(value.encode("utf-8", "replace")) for value in values if isinstance(value, str))
