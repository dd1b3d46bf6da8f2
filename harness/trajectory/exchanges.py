"""A trajectory from the exchanges that the gateway captured: what was really said to the LLM, and by it."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from harness.regular_file import opened
from harness.trajectory.atif import Metrics, Trajectory
from harness.trajectory.building import Builder, Turn
from harness.trajectory.lines import MAX_DOCUMENT, objects
from harness.trajectory.values import JsonObject, count, dollars, parsed, part, text
from harness.trajectory.wire import chat, gemini, messages, responses
from harness.trajectory.wire.base import Said

CALLS_NAME, FOLDER_NAME = "calls.jsonl", "exchanges"
# Of more calls in one answer those without ids are not told apart.
MAX_PARALLEL = 100


@dataclass(frozen=True)
class Wire:
    """How one protocol's requests and answers are read."""

    said: Callable[[JsonObject], list[Said]]
    answer: Callable[[list[JsonObject], Turn], None]


WIRES = {
    "/chat/completions": Wire(chat.said, chat.answer),
    "/responses": Wire(responses.said, responses.answer),
    "/messages": Wire(messages.said, messages.answer),
    ":generateContent": Wire(gemini.said, gemini.answer),
    ":streamGenerateContent": Wire(gemini.said, gemini.answer),
}


def read_exchanges(folder: Path, agent: str) -> Trajectory | None:
    """The trajectory in the gateway's folder of a run; None if nothing was captured."""
    reader = _Reader(Builder(agent))
    for row in _ended(folder / CALLS_NAME, reader.builder):
        name = text(part(row, "detail"), "exchange")
        # The name stands in a file that an imported run may bring along.
        if name and Path(name).name == name:
            reader.read(row, folder / FOLDER_NAME / name)
    return reader.builder.done()


def _ended(calls: Path, builder: Builder) -> list[JsonObject]:
    """The calls that have ended, by their numbers: the order in which they began."""
    with opened(calls) as file:
        rows = [part(line, "ended") for line in objects(file, builder.tally)] if file else []
    return sorted((row for row in rows if row), key=lambda row: count(row, "number") or 0)


class _Reader:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._known: set[int] = set()

    def read(self, row: JsonObject, path: Path) -> None:
        """One exchange: what is new in its request, then its answer."""
        exchange = self._exchange(path)
        request, answer = part(exchange, "request"), part(exchange, "answer")
        wire = next((one for end, one in WIRES.items() if text(request, "path").endswith(end)), None)
        if wire is None:
            # Counting tokens, or a file that could not be read.
            return
        self.builder.tell_agent(model=text(row, "model"))
        self._request(wire, text(request, "body"), row)
        if (count(answer, "status") or 0) >= 400:
            facts = {"status": answer.get("status"), "ended": answer.get("ended")}
            self.builder.event("refused call", facts, row.get("at"), text(answer, "body")[:2000])
            return
        turn = self.builder.turn("agent", row.get("at"))
        turn.model = text(row, "model") or None
        wire.answer(_values(text(answer, "body")), turn)
        turn.metrics = metrics_of(row)
        ended = text(answer, "ended")
        turn.note(call=count(row, "number"), ended=None if ended == "complete" else ended)

    def _exchange(self, path: Path) -> JsonObject:
        self.builder.tally.lines += 1
        try:
            with opened(path) as file, gzip.GzipFile(fileobj=file or BytesIO()) as packed:
                raw = packed.read(MAX_DOCUMENT)
            # Bodies are texts in it: it has few values, however many commas they have.
            value = parsed(raw, max_values=len(raw))
        except (OSError, EOFError, zlib.error, ValueError):
            self.builder.tally.broken += 1
            return {}
        return value if isinstance(value, dict) else {}

    def _request(self, wire: Wire, body: str, row: JsonObject) -> None:
        """Each request repeats the conversation: what was there already is passed over."""
        try:
            said = wire.said(part({"body": parsed(body.encode("utf-8", "replace"))}, "body"))
        except ValueError:
            # Cut off at the gateway's cap.
            self.builder.event("unread request", {"bytes": len(body)}, row.get("at"))
            return
        seen: Counter[int] = Counter()
        for one in said:
            # A result is said once, whatever a client does to its text later; other words may be said again.
            mark = hash(("result", one.call_id) if one.call_id else one)
            seen[mark] += 1
            key = mark if one.call_id else hash((mark, seen[mark]))
            if one.words and key not in self._known:
                self._known.add(key)
                self._tell(one, row.get("at"))

    def _tell(self, one: Said, at: Any) -> None:
        if one.speaker == "result":
            self.builder.result(self._call_of(one), one.words)
        else:
            self.builder.say(one.speaker, one.words, at)

    def _call_of(self, one: Said) -> str:
        """The id of the call that a result answers: its own, or that of the last open call of its tool."""
        if self.builder.caller(one.call_id) is not None or not one.tool:
            return one.call_id
        turn = self.builder.last()
        if turn is None or len(turn.calls) > MAX_PARALLEL:
            return one.call_id
        answered = {result.source_call_id for result in turn.results}
        open_calls = (call_id for call_id in turn.calls if call_id not in answered)
        return next((call_id for call_id in open_calls if turn.calls[call_id].function_name == one.tool), one.call_id)


def metrics_of(row: JsonObject) -> Metrics:
    """What the gateway metered for a call."""
    return Metrics(
        prompt_tokens=count(row, "input_tokens"),
        completion_tokens=count(row, "output_tokens"),
        cached_tokens=count(row, "cached_tokens"),
        cost_usd=dollars(row, "cost_usd"),
    )


def _values(body: str) -> list[JsonObject]:
    """The JSON objects of a stream's events, or the one that a whole answer is."""
    is_whole = body.lstrip().startswith(("{", "["))
    lines = [body] if is_whole else [line[5:] for line in body.splitlines() if line.startswith("data:")]
    found = []
    for line in lines:
        try:
            value = parsed(line.encode("utf-8", "replace"))
        except ValueError:
            continue
        found += value if isinstance(value, list) else [value]
    return [value for value in found if isinstance(value, dict)]
