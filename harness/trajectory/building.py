"""A trajectory under construction: what readers find goes in, ATIF's rules and our bounds are kept here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.trajectory.atif import (
    Extra,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Source,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryAgent,
)
from harness.trajectory.lines import MAX_LINES, Tally
from harness.trajectory.values import MAX_NAME, JsonObject, clean, pruned, timestamp

MAX_STEPS = 50_000
MAX_TOTALS = 1_000
# Characters of text in all; what would go beyond is left out.
MAX_CHARACTERS = 64 * 2**20
# What a piece of text, a number, a container, and a call or result cost in memory beside their characters.
PIECE_COST, NUMBER_COST, CONTAINER_COST, OBJECT_COST = 64, 32, 200, 500


@dataclass
class Totals:
    """Tokens and cost as a log itself sums them up; None: it does not tell."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    cost_usd: float | None = None


@dataclass
class Turn:
    """A step that may still grow."""

    builder: Builder
    source: Source
    at: str | None = None
    model: str | None = None
    metrics: Metrics | None = None
    extra: Extra = field(default_factory=dict)
    message: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    results: list[ObservationResult] = field(default_factory=list)
    # Between the pieces of message and reasoning; nothing where they come as the model wrote them, token by token.
    joint: str = "\n\n"

    def say(self, words: str) -> None:
        """More text of the message."""
        if words and self.builder.has_room(len(words)):
            self.message.append(clean(words))

    def think(self, words: str) -> None:
        """More of what the model thought."""
        if words and self.builder.has_room(len(words)):
            self.reasoning.append(clean(words))

    def call(self, call_id: str, name: str, arguments: JsonObject) -> None:
        """A tool call; one that is there already stays as it is."""
        call_id = clean(call_id)[:MAX_NAME] or f"call_{len(self.calls) + 1}"
        if call_id in self.calls:
            return
        kept = pruned(arguments)
        if self.builder.has_room(OBJECT_COST + cost_of(kept)):
            name = clean(name)[:MAX_NAME]
            self.calls[call_id] = ToolCall(tool_call_id=call_id, function_name=name, arguments=kept)
            self.builder.remember(call_id, self)

    def note(self, **facts: Any) -> None:
        """Facts for `extra`; those that are not known are left out."""
        for name, value in facts.items():
            kept = pruned(value)
            if kept not in (None, "") and self.builder.has_room(cost_of(kept)):
                self.extra[name] = kept


class Builder:
    """Collects steps in their order."""

    def __init__(self, agent: str) -> None:
        self.agent = TrajectoryAgent(name=agent, version="")
        self.session_id: str | None = None
        # One for each process, or conversation, that the log tells the end of.
        self._totals: dict[str, Totals] = {}
        self.tally = Tally()
        self.left_out = 0
        self._turns: list[Turn] = []
        self._by_key: dict[str, Turn] = {}
        self._by_call: dict[str, Turn] = {}
        self._room = MAX_CHARACTERS
        self._processes = self._sums = 0

    def tell_agent(self, *, version: str = "", model: str = "", session: str = "") -> None:
        """What a log says of its agent; the first word on each counts."""
        self.agent = self.agent.model_copy(
            update={
                "version": self.agent.version or clean(version)[:MAX_NAME],
                "model_name": self.agent.model_name or clean(model)[:MAX_NAME] or None,
            }
        )
        self.session_id = self.session_id or clean(session)[:MAX_NAME] or None

    def next_prefix(self) -> str:
        """For call ids of a log that numbers them anew in each process; nothing for the first one."""
        self._processes += 1
        return f"{self._processes}:" if self._processes > 1 else ""

    def begin_totals(self) -> None:
        """The sums that come next are beside those so far, not instead of them."""
        self._sums += 1

    def set_totals(self, totals: Totals, key: str = "") -> None:
        """Sums that the log tells; they replace those of the same `key`."""
        key = clean(key) or f"sum {self._sums}"
        if key in self._totals or len(self._totals) < MAX_TOTALS:
            self._totals[key] = totals

    def has_room(self, size: int) -> bool:
        """Whether so many characters more are kept; if so they are counted."""
        if size + PIECE_COST > self._room:
            self.left_out += 1
            return False
        self._room -= size + PIECE_COST
        return True

    def turn(self, source: Source, at: Any = None, key: str = "") -> Turn:
        """A new step, or the one that has this `key` already."""
        if key and (known := self._by_key.get(key)) is not None:
            return known
        turn = Turn(self, source, timestamp(at))
        if len(self._turns) >= MAX_STEPS:
            self.left_out += 1
            return turn
        self._turns.append(turn)
        if key:
            self._by_key[key] = turn
        return turn

    def last(self) -> Turn | None:
        """The step that came last."""
        return self._turns[-1] if self._turns else None

    def say(self, source: Source, words: str, at: Any = None) -> None:
        """A step that is a message, unless it is empty."""
        if words:
            self.turn(source, at).say(words)

    def caller(self, call_id: str) -> Turn | None:
        """The step that made a call."""
        return self._by_call.get(clean(call_id)[:MAX_NAME])

    def remember(self, call_id: str, turn: Turn) -> None:
        """The step whose call the next result of this id belongs to."""
        self._by_call[call_id] = turn

    def result(self, call_id: str, words: str, at: Any = None, **facts: Any) -> None:
        """What a call came to: at the step that made it, or at one of its own where that is not known."""
        call_id = clean(call_id)[:MAX_NAME]
        turn = self.caller(call_id)
        is_known = turn is not None
        if turn is None:
            turn = self.turn("system", at)
        told = {name: pruned(value) for name, value in facts.items() if value not in (None, "")}
        if at is not None:
            told["timestamp"] = timestamp(at)
        if self.has_room(OBJECT_COST + len(words) + cost_of(told)):
            source = call_id if is_known else None
            turn.results.append(ObservationResult(source_call_id=source, content=clean(words), extra=told or None))

    def event(self, kind: str, value: JsonObject, at: Any = None, words: str = "") -> None:
        """Something that is no message: kept as it is, as a step of the system's."""
        if len(self._turns) >= MAX_STEPS:
            self.left_out += 1
            return
        turn = self.turn("system", at)
        turn.note(event=kind[:MAX_NAME] or "?", value=value)
        turn.say(words)

    def done(self) -> Trajectory | None:
        """The trajectory; None if there is no step."""
        steps = tuple(_step(number, turn) for number, turn in enumerate(self._turns, start=1))
        if not steps:
            return None
        return Trajectory(
            session_id=self.session_id,
            agent=self.agent,
            steps=steps,
            notes=self._notes(),
            final_metrics=_final(steps, list(self._totals.values())),
        )

    def _notes(self) -> str | None:
        told = []
        if self.tally.broken:
            told.append(f"{self.tally.broken} of {self.tally.lines} lines could not be read")
        if self.tally.is_cut:
            told.append(f"the log has more lines than are read ({MAX_LINES:,})")
        if self.left_out:
            told.append(f"{self.left_out} things were left out: the log is larger than what is shown")
        return "; ".join(told) or None


def cost_of(value: Any) -> int:
    """About how many characters a value takes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return CONTAINER_COST + sum(len(name) + cost_of(item) for name, item in value.items() if isinstance(name, str))
    return CONTAINER_COST + sum(cost_of(item) for item in value) if isinstance(value, list) else NUMBER_COST


def _step(number: int, turn: Turn) -> Step:
    is_agent = turn.source == "agent"
    return Step(
        step_id=number,
        timestamp=turn.at,
        source=turn.source,
        model_name=turn.model if is_agent else None,
        message=turn.joint.join(turn.message),
        reasoning_content=turn.joint.join(turn.reasoning) or None if is_agent else None,
        tool_calls=tuple(turn.calls.values()) or None if is_agent else None,
        observation=Observation(results=tuple(turn.results)) if turn.results else None,
        metrics=turn.metrics if is_agent else None,
        extra=turn.extra or None,
    )


def _final(steps: tuple[Step, ...], totals: list[Totals]) -> FinalMetrics:
    """The log's own sums; where it has none, those of its steps."""
    if not totals:
        totals = [
            Totals(m.prompt_tokens, m.completion_tokens, m.cached_tokens, m.cost_usd)
            for m in (step.metrics for step in steps)
            if m is not None
        ]
    return FinalMetrics(
        total_prompt_tokens=_sum([one.prompt for one in totals]),
        total_completion_tokens=_sum([one.completion for one in totals]),
        total_cached_tokens=_sum([one.cached for one in totals]),
        total_cost_usd=_cost([one.cost_usd for one in totals]),
        total_steps=len(steps),
    )


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _cost(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 9) if known else None
