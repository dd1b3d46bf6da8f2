"""A run's budget under calls that come at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.domain.llm import LlmBudget, LlmUsage
from harness.errors import LlmRefusal
from harness.gateway.budget import Hold, Ledger

PATIENCE_S = 5.0


def ledger(max_parallel: int = 64, max_waiting: int = 100, **budget: Any) -> Ledger:
    return Ledger(LlmBudget(**budget), LlmUsage(run_id="r", is_open=True), max_parallel, max_waiting)


def settle(book: Ledger, hold: Hold, usd: float = 0.0, tokens: int = 0) -> bool:
    used = book.used
    return book.settle(
        hold, used.model_copy(update={"cost_usd": used.cost_usd + usd, "input_tokens": used.input_tokens + tokens})
    )


async def outcome(book: Ledger, hold: Hold, usd: float, timeout_s: float = PATIENCE_S) -> str:
    """Runs one call that costs `usd`; `ok`, or the kind of its refusal."""
    try:
        await book.admit(hold, timeout_s)
    except LlmRefusal as refusal:
        return refusal.kind
    await asyncio.sleep(0)
    settle(book, hold, usd)
    return "ok"


async def parallel(book: Ledger, hold: Hold, usd: float, number: int) -> list[str]:
    return list(await asyncio.gather(*(outcome(book, hold, usd) for _ in range(number))))


def test_parallel_calls_overrun_a_budget_by_one_call_at_most() -> None:
    book = ledger(usd=1.0)
    outcomes = asyncio.run(parallel(book, Hold(usd=0.3), 0.3, 64))
    assert outcomes.count("ok") == 4
    assert outcomes.count("budget_exceeded") == 60
    assert book.used.cost_usd == pytest.approx(1.2)
    assert book.usage().is_over_budget


def test_holds_that_fit_run_side_by_side_and_none_beyond() -> None:
    async def scenario() -> None:
        book, hold = ledger(usd=1.0), Hold(usd=0.4)
        for _ in range(2):
            await book.admit(hold, PATIENCE_S)
        assert book.usage().open_calls == 2
        assert book.usage().held_usd == pytest.approx(0.8)
        third = asyncio.create_task(book.admit(hold, PATIENCE_S))
        await asyncio.sleep(0.01)
        assert not third.done()
        settle(book, hold, 0.01)
        await third
        assert book.usage().open_calls == 2

    asyncio.run(scenario())


def test_a_waiting_call_is_not_refused_for_what_is_only_held() -> None:
    book = ledger(usd=1.0)
    assert asyncio.run(parallel(book, Hold(usd=0.9), 0.01, 50)) == ["ok"] * 50
    assert book.used.cost_usd == pytest.approx(0.5)


def test_a_single_call_may_use_what_is_left() -> None:
    book = ledger(usd=0.001)
    assert asyncio.run(outcome(book, Hold(usd=5.0), 0.0005)) == "ok"
    assert asyncio.run(outcome(book, Hold(usd=5.0), 0.0005)) == "ok"
    assert asyncio.run(outcome(book, Hold(usd=0.0), 0.0)) == "budget_exceeded"


def test_tokens_are_held_and_spent() -> None:
    async def scenario() -> None:
        book, hold = ledger(tokens=100), Hold(tokens=60)
        await book.admit(hold, PATIENCE_S)
        with pytest.raises(LlmRefusal, match="too many calls"):
            await book.admit(hold, 0.01)
        assert settle(book, hold, tokens=100)
        with pytest.raises(LlmRefusal, match="budget"):
            await book.admit(hold, PATIENCE_S)

    asyncio.run(scenario())


def test_requests_are_counted_when_they_start() -> None:
    async def scenario() -> list[str]:
        book = ledger(requests=3)
        return [await outcome(book, Hold(), 0) for _ in range(5)]

    assert asyncio.run(scenario()) == ["ok"] * 3 + ["budget_exceeded"] * 2


def test_calls_that_cost_nothing_are_answered_with_a_spent_budget() -> None:
    book = ledger(usd=0.0)
    assert asyncio.run(outcome(book, Hold(is_billed=False), 0)) == "ok"
    assert book.used.requests == 0


def test_first_come_first_served() -> None:
    order: list[int] = []

    async def one(book: Ledger, number: int) -> None:
        await book.admit(Hold(usd=0.6), PATIENCE_S)
        order.append(number)
        await asyncio.sleep(0)
        settle(book, Hold(usd=0.6))

    async def scenario() -> None:
        book = ledger(usd=1.0)
        await asyncio.gather(*(one(book, number) for number in range(20)))

    asyncio.run(scenario())
    assert order == list(range(20))


def test_a_run_that_is_closed_refuses_those_that_wait() -> None:
    async def scenario() -> None:
        book, hold = ledger(max_parallel=1), Hold()
        await book.admit(hold, PATIENCE_S)
        waiting = [asyncio.create_task(outcome(book, hold, 0)) for _ in range(5)]
        await asyncio.sleep(0.01)
        book.close()
        assert await asyncio.gather(*waiting) == ["authentication_error"] * 5
        settle(book, hold, 0.5)
        assert book.used.cost_usd == 0.5
        assert not book.usage().is_open

    asyncio.run(scenario())


def test_a_call_that_gives_up_waiting_lets_the_next_one_in() -> None:
    async def scenario() -> None:
        book = ledger(usd=1.0)
        await book.admit(Hold(usd=0.5), PATIENCE_S)
        large = asyncio.create_task(outcome(book, Hold(usd=0.9), 0, 0.05))
        await asyncio.sleep(0)
        small = asyncio.create_task(outcome(book, Hold(usd=0.1), 0))
        assert await asyncio.gather(large, small) == ["rate_limit_error", "ok"]

    asyncio.run(scenario())


def test_a_queue_has_an_end() -> None:
    async def scenario() -> None:
        book = ledger(max_parallel=1, max_waiting=2)
        await book.admit(Hold(), PATIENCE_S)
        waiting = [asyncio.create_task(outcome(book, Hold(), 0)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert await outcome(book, Hold(), 0) == "rate_limit_error"
        book.close()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())


def test_a_budget_is_told_as_spent_once() -> None:
    book = ledger(usd=1.0, max_parallel=3)

    async def scenario() -> list[bool]:
        for _ in range(3):
            await book.admit(Hold(usd=0.1), PATIENCE_S)
        return [settle(book, Hold(usd=0.1), usd) for usd in (0.5, 0.5, 0.5)]

    assert asyncio.run(scenario()) == [False, True, False]


def test_a_budget_of_requests_is_told_as_spent_when_the_last_has_ended() -> None:
    book = ledger(requests=2)

    async def scenario() -> list[bool]:
        told = []
        for _ in range(2):
            await book.admit(Hold(), PATIENCE_S)
            told.append(settle(book, Hold(), 0.1))
        return told

    assert asyncio.run(scenario()) == [False, True]
