"""A call that has been checked: what goes to the provider, and what it may come to at most."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import LlmRefusal
from harness.gateway.bodies import parsed
from harness.gateway.budget import Hold
from harness.gateway.policy import malformed, refused
from harness.gateway.prices import Price, PriceTable
from harness.gateway.protocols.base import CallFacts
from harness.gateway.registry import OpenRun
from harness.gateway.routes import Route
from harness.gateway.usage import estimated_tokens


@dataclass(frozen=True)
class Prepared:
    """One checked call; `is_buffered`: events may be hidden from the agent, so they are passed on whole."""

    route: Route
    facts: CallFacts
    body: bytes
    price: Price
    is_listed: bool
    is_buffered: bool
    hold: Hold

    @property
    def most_written(self) -> int:
        """Tokens that the answer can have."""
        return most_written(self.facts, self.price)


def prepare(route: Route, raw: bytes, run: OpenRun, prices: PriceTable) -> Prepared:
    """The call that `raw`, an unpacked body, asks for.

    Raises:
        LlmRefusal: it is not allowed, or cannot be read.
    """
    body, protocol = parsed(raw), route.protocol
    facts = protocol.check(body, route.model, run.spec.allowed_tools)
    if run.spec.models and facts.model not in run.spec.models:
        raise LlmRefusal(400, "model_not_allowed", "this model is not allowed in this run")
    price = prices.price_of(facts.model)
    if price is None:
        raise refused("a model without a price")
    if not route.is_billed and facts.is_stream:
        raise malformed("there is nothing to stream here")
    return Prepared(
        route,
        facts,
        protocol.forwarded(raw, body),
        price,
        prices.is_listed(facts.model),
        protocol.is_buffered(body),
        _hold(facts, len(raw), price) if route.is_billed else Hold(is_billed=False),
    )


def _hold(facts: CallFacts, size: int, price: Price) -> Hold:
    read, written = estimated_tokens(size), most_written(facts, price)
    return Hold(read + written, price.worst_case_usd(read, written))


def most_written(facts: CallFacts, price: Price) -> int:
    """Tokens that the answer to a call can have."""
    return (facts.max_output_tokens or price.max_output_tokens) * facts.answers
