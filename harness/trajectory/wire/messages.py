"""Anthropic's messages."""

from __future__ import annotations

from harness.trajectory.building import Turn
from harness.trajectory.values import JsonObject, arguments, count, part, parts, text, words
from harness.trajectory.wire.base import Said


def said(request: JsonObject) -> list[Said]:
    """What the request brings, beside what the model itself has said before."""
    system = request.get("system")
    found = [Said("system", system)] if isinstance(system, str) else []
    found += [Said("system", text(block, "text")) for block in parts(request, "system")]
    for message in parts(request, "messages"):
        if text(message, "role") != "user":
            continue
        if isinstance(message.get("content"), str):
            found.append(Said("user", text(message, "content")))
        for block in parts(message, "content"):
            if text(block, "type") == "tool_result":
                found.append(Said("result", words(block.get("content")), text(block, "tool_use_id")))
            else:
                found.append(Said("user", text(block, "text")))
    return found


def answer(values: list[JsonObject], turn: Turn) -> None:
    """Reads a whole answer's blocks, or those of a stream, into `turn`."""
    blocks = [block for value in values for block in parts(value, "content")]
    for block in blocks or _streamed(values):
        kind = text(block, "type")
        if kind == "text":
            turn.say(text(block, "text"))
        elif kind == "thinking":
            turn.think(text(block, "thinking"))
        elif kind.endswith("tool_use"):
            turn.call(text(block, "id"), text(block, "name"), arguments(block.get("input")))


def _streamed(values: list[JsonObject]) -> list[JsonObject]:
    """The blocks of a stream, put together from their deltas."""
    blocks: dict[int, JsonObject] = {}
    pieces: dict[int, dict[str, list[str]]] = {}
    for value in values:
        index = count(value, "index") or 0
        if text(value, "type") == "content_block_start":
            blocks[index] = part(value, "content_block")
        for name in ("text", "thinking", "partial_json"):
            if piece := text(part(value, "delta"), name):
                pieces.setdefault(index, {}).setdefault(name, []).append(piece)
    found = []
    for index, block in blocks.items():
        joined = {name: "".join(said) for name, said in pieces.get(index, {}).items()}
        if "partial_json" in joined:
            joined["input"] = joined.pop("partial_json")
        found.append({**block, **joined})
    return found
