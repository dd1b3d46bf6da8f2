"""What an earlier session left behind, and how much of it a new one can begin with; knows nothing of mini-swe-agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# The only end after which the whole conversation can be sent again: others may have come of its length or content.
ENDED_BY_ITSELF = "Submitted"
PATTERN = "*.traj.json"


def last_trajectory(folder: Path) -> Path | None:
    """The newest session's file."""
    return max(folder.glob(PATTERN), key=lambda path: path.stat().st_mtime_ns, default=None)


def earlier_messages(path: Path) -> list[dict[str, Any]] | None:
    """The messages of a session that ended by itself, without its end: no call in them is unanswered."""
    try:
        session = json.loads(path.read_text())
    except ValueError:
        return None
    if session["info"].get("exit_status") != ENDED_BY_ITSELF:
        return None
    messages: list[dict[str, Any]] = session["messages"]
    while messages and messages[-1]["role"] not in ("tool", "user"):
        messages.pop()
    return messages if _is_answered(messages) else None


def _is_answered(messages: list[dict[str, Any]]) -> bool:
    asked = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    return asked == {message["tool_call_id"] for message in messages if message["role"] == "tool"}
