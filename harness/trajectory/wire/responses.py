"""OpenAI's Responses API."""

from __future__ import annotations

from harness.trajectory.building import Turn
from harness.trajectory.values import JsonObject, arguments, part, parts, text, words
from harness.trajectory.wire.base import Said


def said(request: JsonObject) -> list[Said]:
    """What the request brings, beside what the model itself has said before."""
    found = [Said("system", text(request, "instructions"))]
    if isinstance(request.get("input"), str):
        found.append(Said("user", text(request, "input")))
    for item in parts(request, "input"):
        kind, role = text(item, "type"), text(item, "role")
        if kind.endswith("_call_output"):
            output = item.get("output")
            result = words(output) or text(part(item, "output"), "content", "output")
            found.append(Said("result", result, text(item, "call_id")))
        elif role in ("system", "developer"):
            found.append(Said("system", words(item.get("content"))))
        elif role == "user":
            found.append(Said("user", words(item.get("content"))))
    return found


def answer(values: list[JsonObject], turn: Turn) -> None:
    """Reads a whole answer's items, or those that a stream has ended, into `turn`."""
    ended = [part(value, "item") for value in values if text(value, "type") == "response.output_item.done"]
    for item in ended or [item for value in values for item in _whole(value)]:
        kind = text(item, "type")
        if kind == "message":
            turn.say(words(item.get("content")))
        elif kind == "reasoning":
            turn.think(words(item.get("summary")) or words(item.get("content")))
        elif kind.endswith("_call"):
            given = item.get("arguments") or item.get("input") or item.get("action")
            turn.call(text(item, "call_id", "id"), text(item, "name") or kind, arguments(given))


def _whole(value: JsonObject) -> list[JsonObject]:
    return parts(value, "output") or parts(part(value, "response"), "output")
