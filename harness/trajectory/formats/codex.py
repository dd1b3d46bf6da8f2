"""Codex's `exec --json`: items as they complete; no model name, no times, sums per thread."""

from __future__ import annotations

from typing import BinaryIO

from harness.trajectory.building import Builder, Totals, Turn
from harness.trajectory.lines import objects
from harness.trajectory.values import JsonObject, arguments, count, part, text, words

# Items that are calls, and which of their fields are what is called with.
CALLS = {
    "command_execution": ("command",),
    "file_change": ("changes",),
    "web_search": ("query", "action"),
    "todo_list": ("items",),
    "collab_tool_call": ("tool", "prompt", "receiver_thread_ids"),
}
RESULT_FACTS = ("exit_code", "status")


def read(file: BinaryIO, builder: Builder) -> None:
    """Reads one log into `builder`."""
    thread = ""
    # Items are numbered anew by each process.
    process = builder.next_prefix()
    for event in objects(file, builder.tally):
        kind, item = text(event, "type"), part(event, "item")
        if kind == "thread.started":
            process = builder.next_prefix() if thread else process
            thread = text(event, "thread_id")
            builder.tell_agent(session=thread)
        elif kind in ("item.started", "item.completed"):
            _item(item, builder, process, is_done=kind == "item.completed")
        elif kind == "turn.completed":
            _usage(part(event, "usage"), builder, thread)
        elif kind not in ("turn.started", "item.updated"):
            builder.event(kind, event, words=text(part(event, "error"), "message") or text(event, "message"))


def _item(item: JsonObject, builder: Builder, process: str, *, is_done: bool) -> None:
    kind = text(item, "type")
    if kind in CALLS or kind == "mcp_tool_call":
        _call(item, builder, process + text(item, "id"), is_done=is_done)
    elif not is_done:
        return
    elif kind == "agent_message":
        _open_turn(builder, has_message=True).say(text(item, "text"))
    elif kind == "reasoning":
        _open_turn(builder, has_message=True).think(text(item, "text"))
    else:
        builder.event(kind, item, words=text(item, "message"))


def _open_turn(builder: Builder, *, has_message: bool) -> Turn:
    """The step that goes on: the log does not tell which items came of one answer of the model.

    A message or a thought begins one, unless there was nothing but a thought so far; so does a call after results.
    """
    last = builder.last()
    is_over = last is None or last.source != "agent" or bool(last.results)
    if last is None or is_over or (has_message and (last.message or last.calls)):
        return builder.turn("agent")
    return last


def _call(item: JsonObject, builder: Builder, call_id: str, *, is_done: bool) -> None:
    kind = text(item, "type")
    turn = builder.caller(call_id)
    if turn is None:
        turn = _open_turn(builder, has_message=False)
        if kind == "mcp_tool_call":
            turn.call(call_id, f"{text(item, 'server')}.{text(item, 'tool')}", arguments(item.get("arguments")))
        else:
            turn.call(call_id, kind, {name: item[name] for name in CALLS[kind] if name in item})
    if is_done:
        told = words(part(item, "result").get("content")) or text(part(item, "error"), "message")
        facts = {name: item.get(name) for name in RESULT_FACTS}
        builder.result(call_id, text(item, "aggregated_output") or told, **facts)


def _usage(usage: JsonObject, builder: Builder, thread: str) -> None:
    """Sums of the whole thread, also where it was taken up again: the last ones count."""
    totals = Totals(count(usage, "input_tokens"), count(usage, "output_tokens"), count(usage, "cached_input_tokens"))
    builder.set_totals(totals, key=f"thread {thread}")
