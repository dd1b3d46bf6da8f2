"""OpenAI's chat completions, also of compatible servers."""

from __future__ import annotations

from harness.trajectory.building import Turn
from harness.trajectory.values import JsonObject, arguments, count, part, parts, text, words
from harness.trajectory.wire.base import Said


def said(request: JsonObject) -> list[Said]:
    """What the request brings, beside what the model itself has said before."""
    found = []
    for message in parts(request, "messages"):
        role, content = text(message, "role"), words(message.get("content"))
        if role == "tool":
            found.append(Said("result", content, text(message, "tool_call_id")))
        elif role in ("system", "developer"):
            found.append(Said("system", content))
        elif role == "user":
            found.append(Said("user", content))
    return found


def answer(values: list[JsonObject], turn: Turn) -> None:
    """Reads the first choice of a whole answer, or of a stream's chunks, into `turn`."""
    calls: dict[int, list[JsonObject]] = {}
    turn.joint = ""
    for value in values:
        choice = next((one for one in parts(value, "choices") if not count(one, "index")), {})
        message = part(choice, "message") or part(choice, "delta")
        turn.think(text(message, "reasoning_content", "reasoning"))
        turn.say(words(message.get("content")))
        for place, call in enumerate(parts(message, "tool_calls")):
            calls.setdefault(place if (index := count(call, "index")) is None else index, []).append(call)
    for pieces in calls.values():
        functions = [part(piece, "function") for piece in pieces]
        call_id = next(filter(None, (text(piece, "id") for piece in pieces)), "")
        name = next(filter(None, (text(function, "name") for function in functions)), "")
        turn.call(call_id, name, arguments("".join(text(function, "arguments") for function in functions) or "{}"))
