"""Gemini CLI's `--output-format stream-json`: messages in pieces, tool calls, and one result with sums."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.building import Builder, Totals
from harness.trajectory.lines import objects
from harness.trajectory.values import JsonObject, arguments, count, part, text


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    prefix = builder.next_prefix()
    for event in objects(file, builder.tally):
        kind, at = text(event, "type"), event.get("timestamp")
        if kind == "init":
            builder.tell_agent(model=text(event, "model"), session=text(event, "session_id"))
        elif kind == "message":
            _message(event, builder)
        elif kind == "tool_use":
            _call(event, builder, prefix)
        elif kind == "tool_result":
            said = text(event, "output") or text(part(event, "error"), "message")
            builder.result(prefix + text(event, "tool_id"), said, at, status=text(event, "status"))
        elif kind == "result":
            _result(event, builder)
        else:
            builder.event(kind, event, at, words=text(event, "message"))


def _message(event: JsonObject, builder: Builder) -> None:
    if text(event, "role") != "assistant":
        builder.say("user", text(event, "content"), event.get("timestamp"))
        return
    last = builder.last()
    # Pieces of one answer; what comes after a call is the next one.
    turn = last if last and last.source == "agent" and not last.calls else builder.turn("agent", event.get("timestamp"))
    turn.joint = ""
    turn.say(text(event, "content"))


def _call(event: JsonObject, builder: Builder, prefix: str) -> None:
    last = builder.last()
    is_open = last is not None and last.source == "agent" and not last.results
    turn = last if last and is_open else builder.turn("agent", event.get("timestamp"))
    turn.call(prefix + text(event, "tool_id"), text(event, "tool_name"), arguments(event.get("parameters")))


def _result(event: JsonObject, builder: Builder) -> None:
    stats = part(event, "stats")
    builder.begin_totals()
    builder.set_totals(Totals(count(stats, "input_tokens"), count(stats, "output_tokens"), count(stats, "cached")))
    turn = builder.turn("system", event.get("timestamp"))
    turn.note(event="result", status=text(event, "status"), duration_ms=count(stats, "duration_ms"))
    turn.say(text(part(event, "error"), "message"))
