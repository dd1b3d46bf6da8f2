"""One run's budget: what its calls may cost is held back before they start and settled when they end.

A call whose hold does not fit beside those under way waits until they have settled; it is refused only once the budget
is spent. Alone a call may use what is left, so a budget can be overrun by one call, never by many at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from harness.domain.llm import LlmBudget, LlmUsage
from harness.errors import LlmRefusal

SPENT = "budget of this run is spent"


@dataclass(frozen=True)
class Hold:
    """What one call may come to."""

    tokens: int = 0
    usd: float = 0.0
    is_billed: bool = True


def over_budget() -> LlmRefusal:
    """The refusal that ended five of six agents within ten seconds; no digits, or some of them would try again."""
    return LlmRefusal(402, "budget_exceeded", SPENT)


class Ledger:
    """What a run has used and what is held for its open calls. For one event loop; no change is awaited half-way."""

    def __init__(self, budget: LlmBudget, used: LlmUsage, max_parallel: int, max_waiting: int) -> None:
        self.used = used
        self._budget = budget
        self._max_parallel = max_parallel
        self._max_waiting = max_waiting
        self._held_tokens = 0
        self._held_usd = 0.0
        self._open = 0
        self._queue: deque[asyncio.Event] = deque()
        self._is_closed = False
        self._is_told = False

    def is_spent(self) -> bool:
        """Whether no call may start any more."""
        used, budget = self.used, self._budget
        return (
            (budget.usd is not None and used.cost_usd >= budget.usd)
            or (budget.tokens is not None and used.input_tokens + used.output_tokens >= budget.tokens)
            or (budget.requests is not None and used.requests >= budget.requests)
        )

    def usage(self) -> LlmUsage:
        """The figures of now."""
        return self.used.model_copy(
            update={
                "open_calls": self._open,
                "held_usd": max(0.0, self._held_usd),
                "is_over_budget": self.is_spent(),
                "is_open": not self._is_closed,
            }
        )

    async def admit(self, hold: Hold, timeout_s: float) -> None:
        """Returns when the call may start; its hold counts from then on, and `settle` must follow.

        Raises:
            LlmRefusal: the budget is spent, the run has ended, or its turn did not come in time.
        """
        if not self._queue and self._fits(hold):
            self._take(hold)
            return
        if len(self._queue) >= self._max_waiting:
            raise _later()
        turn = asyncio.Event()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(timeout_s):
                while self._queue[0] is not turn or not self._fits(hold):
                    turn.clear()
                    await turn.wait()
            self._take(hold)
        except TimeoutError:
            raise _later() from None
        finally:
            self._queue.remove(turn)
            self._wake()

    def settle(self, hold: Hold, used: LlmUsage) -> bool:
        """Gives the hold back and takes `used` as the new totals; whether the budget is spent now, told once."""
        self._open -= 1
        self._held_tokens -= hold.tokens
        # Not below nothing: sums of floats do not cancel.
        self._held_usd = self._held_usd - hold.usd if self._open else 0.0
        self.used = used.model_copy(update={"requests": self.used.requests})
        self._wake()
        # Not what it was before this call: requests are counted when they start.
        is_news = self.is_spent() and not self._is_told
        self._is_told = self._is_told or is_news
        return is_news

    def refuse(self) -> None:
        """Counts a call that did not start."""
        self.used = self.used.model_copy(update={"refused": self.used.refused + 1})

    def close(self) -> None:
        """No call starts any more, and those that wait are refused."""
        self._is_closed = True
        for turn in self._queue:
            turn.set()

    def _fits(self, hold: Hold) -> bool:
        if self._is_closed:
            raise LlmRefusal(401, "authentication_error", "this run has ended")
        if hold.is_billed and self.is_spent():
            raise over_budget()
        if self._open >= self._max_parallel:
            return False
        if not self._open or not hold.is_billed:
            return True
        used, budget = self.used, self._budget
        tokens = used.input_tokens + used.output_tokens + self._held_tokens + hold.tokens
        return (budget.usd is None or used.cost_usd + self._held_usd + hold.usd <= budget.usd) and (
            budget.tokens is None or tokens <= budget.tokens
        )

    def _take(self, hold: Hold) -> None:
        self._open += 1
        self._held_tokens += hold.tokens
        self._held_usd += hold.usd
        if hold.is_billed:
            self.used = self.used.model_copy(update={"requests": self.used.requests + 1})

    def _wake(self) -> None:
        if self._queue:
            self._queue[0].set()


def _later() -> LlmRefusal:
    return LlmRefusal(429, "rate_limit_error", "too many calls of this run at a time", retry_after_s=5)
