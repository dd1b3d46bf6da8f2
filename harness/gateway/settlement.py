"""The end of a call: what it used goes into the budget, the journal, the run's exchanges, and to the harness."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from harness.domain.base import now_utc
from harness.domain.llm import OVER_BUDGET, LlmCall
from harness.gateway.capture import Exchange, Message, Recorder
from harness.gateway.journal import added
from harness.gateway.prepared import Prepared
from harness.gateway.registry import OpenRun, Registry
from harness.gateway.usage import Usage


@dataclass
class Tape:
    """The first bytes of an answer, as many as are kept."""

    limit: int
    kept: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(self.kept) < self.limit:
            self.kept += piece[: self.limit - len(self.kept)]


@dataclass
class Course:
    """How a call went, filled in as it goes."""

    status: int = 0
    ended: str = "refused"
    attempts: int = 0
    first_byte_s: float | None = None
    usage: Usage = field(default_factory=Usage)
    is_estimate: bool = False
    # The answer was read to its end, whether the agent stayed for the last bytes or not.
    is_whole: bool = False
    # What the provider failed to do, after all attempts; empty where it answered, or refused the call for what it was.
    given_up: str = ""
    answer_headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Account:
    """One admitted call, from its hold to its settlement."""

    run: OpenRun
    prepared: Prepared
    token: str
    user_agent: str
    tape: Tape
    number: int
    at: datetime = field(default_factory=now_utc)
    began: float = field(default_factory=time.monotonic)
    course: Course = field(default_factory=Course)
    is_settled: bool = False

    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    @property
    def is_answered(self) -> bool:
        """Whether it was paid for, and answered to its end."""
        return self.prepared.hold.is_billed and self.course.is_whole and self.course.status < 300

    def begin(self) -> None:
        """Writes down what the call may come to, before it goes out."""
        hold = self.prepared.hold
        detail = {
            "is_billed": hold.is_billed,
            "is_listed": self.prepared.is_listed,
            "request_bytes": len(self.prepared.body),
        }
        row = self._row(Usage(output_tokens=hold.tokens), hold.usd, detail)
        self.run.journal.begun(row)

    def settle(self, registry: Registry, recorder: Recorder, max_bytes: int) -> None:
        """Closes the account, once."""
        if self.is_settled:
            return
        self.is_settled = True
        usage, course = self.course.usage, self.course
        detail = {
            "ended": course.ended,
            "attempts": course.attempts,
            "given_up": course.given_up,
            "open_calls": self.run.ledger.usage().open_calls,
            "first_byte_s": course.first_byte_s,
            "is_stream": self.prepared.facts.is_stream or self.prepared.route.is_stream,
            "is_billed": self.prepared.hold.is_billed,
            "is_estimate": course.is_estimate,
            "is_listed": self.prepared.is_listed,
            "reasoning_tokens": usage.reasoning_tokens,
            "request_bytes": len(self.prepared.body),
            "answer_bytes": self.tape.size,
            "user_agent": self.user_agent,
            "exchange": recorder.keep(self.run.folder, self._exchange(max_bytes)) if course.attempts else None,
        }
        cost = self.prepared.price.cost_usd(usage) if self.prepared.hold.is_billed else 0.0
        row = self._row(usage, cost, detail)
        ledger = self.run.ledger
        if ledger.settle(self.prepared.hold, added(ledger.used, row)):
            registry.tell(self.run.spec.run_id, OVER_BUDGET)
        self.run.journal.ended(row)

    def _row(self, usage: Usage, cost_usd: float, detail: dict[str, Any]) -> LlmCall:
        route = self.prepared.route
        return LlmCall(
            number=self.number,
            run_id=self.run.spec.run_id,
            at=self.at,
            provider=route.protocol.provider,
            model=self.prepared.facts.model,
            http_status=self.course.status,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=round(cost_usd, 9),
            seconds=round(self.elapsed_s(), 4),
            detail={"protocol": route.protocol.name, "path": route.path, **detail},
        )

    def _exchange(self, max_bytes: int) -> Exchange:
        body, course = self.prepared.body, self.course
        request = Message({"path": self.prepared.route.path}, body[:max_bytes], len(body) > max_bytes)
        head = {"status": course.status, "headers": course.answer_headers, "ended": course.ended}
        answer = Message(head, bytes(self.tape.kept), self.tape.size > len(self.tape.kept))
        return Exchange(self.number, request, answer, self.token)


def note_refusal(run: OpenRun, path: str, status: int, reason: str, max_rows: int) -> None:
    """A call that did not start: counted, and the first ones get a row each."""
    run.ledger.refuse()
    if run.ledger.used.refused > max_rows:
        return
    detail = {"path": path[:200], "refused": reason[:500]}
    row = LlmCall(
        number=run.journal.number(),
        run_id=run.spec.run_id,
        at=now_utc(),
        provider="",
        model="",
        http_status=status,
        detail=detail,
    )
    run.journal.ended(row)
