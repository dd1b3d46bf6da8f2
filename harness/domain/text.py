"""Untrusted text made safe to show: in a message, a log line, a JSON reply."""

from __future__ import annotations

SHOWN_CHARACTERS = 120


def shown(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """`text` itself if it is short and printable, else an escaped and shortened form; always encodable as UTF-8."""
    safe = text if text.isprintable() and text else ascii(text)
    return safe if len(safe) <= limit else f"{safe[: limit - 3]}..."
