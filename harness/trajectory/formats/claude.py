"""Claude Code's `--output-format stream-json`: Anthropic messages, one content block an event, and a result."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.atif import Metrics
from harness.trajectory.building import Builder, Totals
from harness.trajectory.lines import objects
from harness.trajectory.values import JsonObject, arguments, count, dollars, part, parts, text, words

# What only tells that the model is at work.
QUIET = ("thinking_tokens", "status")
RESULT_FACTS = ("subtype", "is_error", "num_turns", "duration_ms", "terminal_reason", "api_error_status")


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    for event in objects(file, builder.tally):
        kind = text(event, "type")
        if kind == "assistant":
            _assistant(event, builder)
        elif kind == "user":
            _user(event, builder)
        elif kind == "result":
            _result(event, builder)
        elif kind == "system" and text(event, "subtype") == "init":
            version, model = text(event, "claude_code_version"), text(event, "model")
            builder.tell_agent(version=version, model=model, session=text(event, "session_id"))
        elif kind != "stream_event" and not (kind == "system" and text(event, "subtype") in QUIET):
            builder.event(f"{kind}/{text(event, 'subtype')}".strip("/"), event, event.get("timestamp"))


def _assistant(event: JsonObject, builder: Builder) -> None:
    message = part(event, "message")
    turn = builder.turn("agent", event.get("timestamp"), key=text(message, "id"))
    turn.model = text(message, "model") or turn.model
    turn.note(subagent_of=text(event, "parent_tool_use_id"))
    for block in _blocks(message):
        kind = text(block, "type")
        if kind == "text":
            turn.say(text(block, "text"))
        elif kind == "thinking":
            turn.think(text(block, "thinking"))
        elif kind == "tool_use":
            turn.call(text(block, "id"), text(block, "name"), arguments(block.get("input")))
        else:
            turn.note(**{f"block_{kind}": block})
    turn.metrics = metrics_of(part(message, "usage")) or turn.metrics


def metrics_of(usage: JsonObject) -> Metrics | None:
    """What was read for one message. The log has the count of written tokens at its start only, which is no count."""
    prompt, cached = _tokens_read(usage)
    return None if prompt is None else Metrics(prompt_tokens=prompt, cached_tokens=cached)


def _tokens_read(usage: JsonObject) -> tuple[int | None, int]:
    """All that was read, and what of it came from a cache; the log tells the cache's part beside the rest."""
    cached, written = count(usage, "cache_read_input_tokens") or 0, count(usage, "cache_creation_input_tokens") or 0
    read_anew = count(usage, "input_tokens")
    return None if read_anew is None else read_anew + cached + written, cached


def _user(event: JsonObject, builder: Builder) -> None:
    message = part(event, "message")
    if isinstance(message.get("content"), str):
        builder.say("user", text(message, "content"), event.get("timestamp"))
    for block in _blocks(message):
        if text(block, "type") == "tool_result":
            facts = {"is_error": block.get("is_error") or None}
            builder.result(text(block, "tool_use_id"), words(block.get("content")), event.get("timestamp"), **facts)
        elif text(block, "type") == "text":
            builder.say("user", text(block, "text"), event.get("timestamp"))
        else:
            builder.event("user block", block, event.get("timestamp"))


def _blocks(message: JsonObject) -> list[JsonObject]:
    return parts(message, "content")


def _result(event: JsonObject, builder: Builder) -> None:
    """The end of a process, or of one answer of several: then it repeats and goes on the sums of those before."""
    index = count(event, "result_index") or 0
    if not index:
        builder.begin_totals()
    usage = part(event, "usage")
    prompt, cached = _tokens_read(usage)
    builder.set_totals(Totals(prompt, count(usage, "output_tokens"), cached, dollars(event, "total_cost_usd")))
    turn = builder.turn("system", event.get("timestamp"))
    turn.note(event="result", **{name: event.get(name) for name in RESULT_FACTS})
    if event.get("is_error"):
        turn.say(text(event, "result"))
