"""Events of the OpenHands SDK, as `model_dump_json` writes them: one a line, or one a file."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.building import Builder, Totals
from harness.trajectory.lines import objects
from harness.trajectory.values import JsonObject, arguments, count, dollars, part, text, words

RESULTS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    for event in objects(file, builder.tally):
        kind, at = text(event, "kind"), event.get("timestamp")
        if kind == "SystemPromptEvent":
            builder.say("system", text(part(event, "system_prompt"), "text"), at)
        elif kind == "MessageEvent":
            _message(event, builder)
        elif kind == "ActionEvent":
            _action(event, builder)
        elif kind in RESULTS:
            _result(event, builder)
        elif kind == "ConversationStateUpdateEvent":
            _state(event, builder)
        else:
            builder.event(kind, event, at, words=text(event, "detail"))


def _message(event: JsonObject, builder: Builder) -> None:
    message, at = part(event, "llm_message"), event.get("timestamp")
    if text(event, "source") != "agent":
        builder.say("user", words(message.get("content")), at)
        return
    turn = builder.turn("agent", at, key=text(event, "llm_response_id"))
    turn.say(words(message.get("content")))
    turn.think(text(message, "reasoning_content"))


def _action(event: JsonObject, builder: Builder) -> None:
    """One call; those of one answer of the model carry the same response's id, and the first of them its thoughts."""
    turn = builder.turn("agent", event.get("timestamp"), key=text(event, "llm_response_id"))
    turn.say(words(event.get("thought")))
    turn.think(text(event, "reasoning_content"))
    call = part(event, "tool_call")
    given = call.get("arguments") or part(call, "function").get("arguments") or event.get("action")
    turn.call(text(event, "tool_call_id"), text(event, "tool_name"), arguments(given))


def _result(event: JsonObject, builder: Builder) -> None:
    observation = part(event, "observation")
    said = words(observation.get("content")) or text(observation, "output")
    said = said or text(event, "error", "rejection_reason")
    is_error = observation.get("is_error") or text(event, "kind") != "ObservationEvent" or None
    facts = {"is_error": is_error, "exit_code": observation.get("exit_code")}
    builder.result(text(event, "tool_call_id"), said, event.get("timestamp"), **facts)


def _state(event: JsonObject, builder: Builder) -> None:
    """Of a conversation's state only its sums are told: the rest is in the other events."""
    value = part(event, "value")
    stats = value if text(event, "key") == "stats" else part(value, "stats")
    for usage_id, metrics in part(stats, "usage_to_metrics").items():
        tokens = part(metrics, "accumulated_token_usage")
        builder.tell_agent(model=text(metrics, "model_name"))
        builder.set_totals(
            Totals(
                count(tokens, "prompt_tokens"),
                count(tokens, "completion_tokens"),
                count(tokens, "cache_read_tokens"),
                dollars(metrics, "accumulated_cost"),
            ),
            key=f"usage {usage_id[:100]}",
        )
