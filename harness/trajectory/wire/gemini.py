"""Gemini's generateContent; its JSON knows every name in two spellings."""

from __future__ import annotations

from harness.trajectory.building import Turn
from harness.trajectory.values import JsonObject, arguments, part, parts, text
from harness.trajectory.wire.base import Said


def said(request: JsonObject) -> list[Said]:
    """What the request brings, beside what the model itself has said before."""
    system = part(request, "systemInstruction") or part(request, "system_instruction")
    found = [Said("system", text(piece, "text")) for piece in parts(system, "parts")]
    for content in parts(request, "contents"):
        if text(content, "role") == "model":
            continue
        for piece in parts(content, "parts"):
            result = part(piece, "functionResponse") or part(piece, "function_response")
            if result:
                output = text(part(result, "response"), "output", "error", "result")
                found.append(Said("result", output, text(result, "id"), text(result, "name")))
            else:
                found.append(Said("user", text(piece, "text")))
    return found


def answer(values: list[JsonObject], turn: Turn) -> None:
    """Reads the first candidate of a whole answer, or of a stream's pieces, into `turn`."""
    turn.joint = ""
    for value in values:
        candidate = next(iter(parts(value, "candidates")), {})
        for piece in parts(part(candidate, "content"), "parts"):
            call = part(piece, "functionCall") or part(piece, "function_call")
            if call:
                turn.call(text(call, "id"), text(call, "name"), arguments(call.get("args")))
            elif piece.get("thought") is True:
                turn.think(text(piece, "text"))
            else:
                turn.say(text(piece, "text"))
