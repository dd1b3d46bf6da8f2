"""OpenCode's `run --format json`: parts of messages, each step's tokens and cost at its end."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.atif import Metrics
from harness.trajectory.building import Builder
from harness.trajectory.lines import objects
from harness.trajectory.values import JsonObject, arguments, count, dollars, part, text


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    for event in objects(file, builder.tally):
        kind, piece, at = text(event, "type"), part(event, "part"), event.get("timestamp")
        builder.tell_agent(session=text(event, "sessionID"))
        if kind in ("text", "reasoning", "tool_use", "step_finish"):
            turn = builder.turn("agent", part(piece, "time").get("start") or at, key=text(piece, "messageID"))
            if kind == "text":
                turn.say(text(piece, "text"))
            elif kind == "reasoning":
                turn.think(text(piece, "text"))
            elif kind == "tool_use":
                state = part(piece, "state")
                turn.call(text(piece, "callID"), text(piece, "tool"), arguments(state.get("input")))
                _result(piece, state, builder, at)
            else:
                turn.metrics = metrics_of(piece)
        elif kind != "step_start":
            error = part(event, "error")
            builder.event(kind, event, at, words=text(part(error, "data"), "message") or text(error, "name"))


def _result(piece: JsonObject, state: JsonObject, builder: Builder, at: object) -> None:
    ended = part(state, "time").get("end") or at
    facts = {"status": text(state, "status"), "exit_code": part(state, "metadata").get("exit")}
    builder.result(text(piece, "callID"), text(state, "output", "error"), ended, **facts)


def metrics_of(piece: JsonObject) -> Metrics:
    """A step's tokens; OpenCode tells what was read from a cache, or written to one, beside `input`."""
    tokens = part(piece, "tokens")
    cached, written = count(part(tokens, "cache"), "read") or 0, count(part(tokens, "cache"), "write") or 0
    return Metrics(
        prompt_tokens=(count(tokens, "input") or 0) + cached + written,
        completion_tokens=(count(tokens, "output") or 0) + (count(tokens, "reasoning") or 0),
        cached_tokens=cached,
        cost_usd=dollars(piece, "cost"),
    )
