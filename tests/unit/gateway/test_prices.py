"""What tokens cost, and what a model costs that is not in the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.gateway.prices import Price, PriceTable, load_prices
from harness.gateway.usage import Usage

PRICE = Price(input=2, cached=0.2, cache_write=2.5, output=10)
TABLE = PriceTable(models={"small": Price(input=1, output=2), "large": PRICE})


def test_each_kind_of_token_has_its_price() -> None:
    assert PRICE.cost_usd(Usage(1_000_000, 600_000, 100_000, 50_000)) == pytest.approx(0.6 + 0.12 + 0.25 + 0.5)


def test_what_is_not_priced_costs_what_input_costs() -> None:
    assert Price(input=2, output=10).cost_usd(Usage(3_000_000, 1_000_000, 1_000_000)) == pytest.approx(2 + 2 + 2.5)


def test_a_cache_that_is_kept_for_an_hour_costs_more() -> None:
    usage = Usage(1_000_000, 0, 1_000_000, cache_hour_tokens=400_000)
    assert PRICE.cost_usd(usage) == pytest.approx(0.6 * 2.5 + 0.4 * 4)
    assert PRICE.worst_case_usd(1_000_000, 0) == pytest.approx(4.0)


def test_the_worst_case_is_never_below_the_cost() -> None:
    for usage in (Usage(1000, 0, 1000, 10), Usage(1000, 1000, 0, 10), Usage(1000, 0, 0, 10)):
        assert PRICE.worst_case_usd(1000, 10) >= PRICE.cost_usd(usage)


def test_dated_names_have_the_price_of_the_plain_one() -> None:
    assert TABLE.price_of("large-2026-01-02") == TABLE.price_of("large-20260102") == PRICE


def test_a_longer_name_is_another_model() -> None:
    assert not TABLE.is_listed("small-pro")
    assert TABLE.price_of("small-pro") == PRICE


def test_an_unknown_model_is_the_dearest_or_refused() -> None:
    assert TABLE.price_of("never-heard-of") == PRICE
    assert TABLE.model_copy(update={"unknown": "refuse"}).price_of("never-heard-of") is None


def test_the_table_of_the_product_is_sound() -> None:
    table = load_prices()
    assert table.dearest() == table.models["claude-opus-4-5"]
    assert all(price.cached is not None and price.cached < price.input for price in table.models.values())


BROKEN = [
    "",
    "models: {}",
    "models: {a: {input: -1, output: 2}}",
    "models: {a: {input: .nan, output: 1}}",
    "models: {a: {output: 2}}",
    "modles: {}",
    "[" * 3000,
    "\tx: [",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_table_without_the_form_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"prices\.yaml"):
        load_prices(path)
