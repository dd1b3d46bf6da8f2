"""What our RD-Agent folder writes (`rdagent.jsonl`): each LLM call whole, and each training with its output's ends."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.atif import Metrics
from harness.trajectory.building import Builder
from harness.trajectory.lines import objects
from harness.trajectory.values import JsonObject, count, part, parts, text, words

TRAINING_FACTS = ("exit_code", "running_time", "benchmark")


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    known: set[int] = set()
    for event in objects(file, builder.tally):
        kind, at = text(event, "kind"), event.get("time")
        if kind == "llm_call":
            _call(event, builder, known)
        elif kind == "training":
            facts = {name: event.get(name) for name in TRAINING_FACTS}
            builder.event(kind, facts, at, words=text(event, "output"))
        else:
            builder.event(kind, event, at)


def _call(event: JsonObject, builder: Builder, known: set[int]) -> None:
    """Each call brings its whole conversation; the system's words are the same in many."""
    for message in parts(event, "messages"):
        role, said = text(message, "role"), words(message.get("content"))
        if role != "assistant" and hash((role, said)) not in known:
            known.add(hash((role, said)))
            builder.say("system" if role == "system" else "user", said, event.get("time"))
    turn = builder.turn("agent", event.get("time"))
    turn.say(text(event, "answer"))
    usage, reason = part(event, "usage"), text(event, "finish_reason")
    turn.note(finish_reason=None if reason == "stop" else reason)
    turn.metrics = Metrics(
        prompt_tokens=count(usage, "input"),
        completion_tokens=count(usage, "output"),
        cached_tokens=count(usage, "cached"),
    )
