"""mini-swe-agent's `traj.json`: one document with every message, and the API's responses beside them."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.atif import Metrics
from harness.trajectory.building import Builder, Turn
from harness.trajectory.lines import document
from harness.trajectory.values import JsonObject, arguments, count, dollars, part, parts, text, words
from harness.trajectory.wire import responses


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    value = document(file, builder.tally)
    info = part(value, "info")
    model = text(part(info, "config", "model"), "model_name")
    builder.tell_agent(version=text(info, "mini_version"), model=model)
    for message in parts(value, "messages"):
        at, role = part(message, "extra").get("timestamp"), text(message, "role")
        if role == "assistant":
            _chat(message, builder.turn("agent", at))
        elif text(message, "object") == "response":
            _response(message, builder.turn("agent", at))
        elif role == "tool" or text(message, "type") == "function_call_output":
            _result(message, builder)
        elif role == "exit":
            extra = part(message, "extra")
            builder.event("exit", {"exit_status": text(extra, "exit_status")}, at, words(message.get("content")))
        else:
            builder.say("system" if role == "system" else "user", words(message.get("content")), at)


def _chat(message: JsonObject, turn: Turn) -> None:
    """An answer of a chat completion."""
    turn.say(words(message.get("content")))
    turn.think(text(message, "reasoning_content"))
    for call in parts(message, "tool_calls"):
        function = part(call, "function")
        turn.call(text(call, "id"), text(function, "name"), arguments(function.get("arguments")))
    turn.metrics = metrics_of(message, part(message, "extra", "response", "usage"))


def _response(message: JsonObject, turn: Turn) -> None:
    """An answer of the Responses API."""
    responses.answer([message], turn)
    turn.metrics = metrics_of(message, part(message, "usage"))


def _result(message: JsonObject, builder: Builder) -> None:
    extra = part(message, "extra")
    said = words(message.get("content")) or words(message.get("output"))
    builder.result(
        text(message, "tool_call_id", "call_id"), said, extra.get("timestamp"), exit_code=extra.get("returncode")
    )


def metrics_of(message: JsonObject, usage: JsonObject) -> Metrics | None:
    """Tokens as the API told them; the cost is what mini-swe-agent's price list makes of them."""
    if not usage:
        return None
    details = part(usage, "prompt_tokens_details") or part(usage, "input_tokens_details")
    return Metrics(
        prompt_tokens=count(usage, "prompt_tokens", "input_tokens"),
        completion_tokens=count(usage, "completion_tokens", "output_tokens"),
        cached_tokens=count(details, "cached_tokens"),
        cost_usd=dollars(part(message, "extra"), "cost"),
    )
