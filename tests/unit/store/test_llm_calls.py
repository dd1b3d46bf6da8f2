"""LLM calls in the record: each once, and what they add up to."""

from __future__ import annotations

import pytest
import samples

from harness.errors import NotFound
from harness.store.database import WritableDatabase
from harness.store.models import LlmSpend
from harness.store.query import run_query
from harness.store.records_llm import add_llm_calls, llm_spend_of


@pytest.fixture
def run_id(db: WritableDatabase) -> str:
    return samples.registered(db, samples.plan()).run_id


def test_a_call_is_kept_once_and_as_it_was_first(db: WritableDatabase, run_id: str) -> None:
    add_llm_calls(db, run_id, [samples.llm_call(n, run_id) for n in (1, 2)])
    add_llm_calls(db, run_id, [samples.llm_call(n, run_id, usd=9.0) for n in (2, 3)])
    rows = run_query(db, "SELECT number, cost_usd FROM llm_call ORDER BY number").rows
    assert rows == ((1, 0.1), (2, 0.1), (3, 9.0))


def test_numbers_count_per_run(db: WritableDatabase, run_id: str) -> None:
    other = samples.registered(db, samples.plan(2)).run_id
    for name in (run_id, other):
        add_llm_calls(db, name, [samples.llm_call(1, name)])
    assert run_query(db, "SELECT count(*) FROM llm_call").rows == ((2,),)


def test_a_call_belongs_to_the_run_that_it_is_told_for(db: WritableDatabase, run_id: str) -> None:
    add_llm_calls(db, run_id, [samples.llm_call(1, "another")])
    assert llm_spend_of(db, run_id).calls == 1


def test_calls_of_an_unknown_run_are_refused(db: WritableDatabase) -> None:
    with pytest.raises(NotFound):
        add_llm_calls(db, "nobody", [])


def test_a_closed_run_takes_its_last_calls(db: WritableDatabase, run_id: str) -> None:
    samples.closed(db, run_id)
    add_llm_calls(db, run_id, [samples.llm_call(1, run_id)])
    assert llm_spend_of(db, run_id).calls == 1


def test_refused_calls_are_no_calls(db: WritableDatabase, run_id: str) -> None:
    refused = samples.llm_call(2, run_id, usd=0, refused="budget").model_copy(
        update={"input_tokens": 0, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 0, "model": ""}
    )
    add_llm_calls(db, run_id, [samples.llm_call(1, run_id, is_listed=True, is_estimate=True), refused])
    assert llm_spend_of(db, run_id) == LlmSpend(
        calls=1, refused_calls=1, input_tokens=7, cached_tokens=2, cache_write_tokens=1, output_tokens=3, cost_usd=0.1,
        is_price_listed=True, estimated_calls=1,
    )  # fmt: skip
    rows = run_query(db, "SELECT model, calls, refused_calls, is_price_listed FROM v_llm_spend ORDER BY model").rows
    assert rows == (("", 0, 1, None), ("m", 1, 0, 1))


def test_a_made_up_price_is_told_apart(db: WritableDatabase, run_id: str) -> None:
    add_llm_calls(db, run_id, [samples.llm_call(n, run_id, is_listed=n == 1) for n in (1, 2)])
    assert not llm_spend_of(db, run_id).is_price_listed


def test_a_run_without_calls_spent_nothing(db: WritableDatabase, run_id: str) -> None:
    assert llm_spend_of(db, run_id) == LlmSpend()
