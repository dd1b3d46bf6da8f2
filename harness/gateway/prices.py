"""What tokens cost: a table in YAML, USD per million, and the rule for models that are not in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from harness.domain.base import Frozen
from harness.errors import UsageError
from harness.gateway.usage import Usage

DEFAULT_TABLE = Path(__file__).with_name("prices.yaml")
# Providers sell `gpt-5` also as `gpt-5-2025-08-07`, and `claude-x` as `claude-x-20250929`.
DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")

PerMillion = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Price(Frozen):
    """USD per million tokens. What has no figure costs: read from a cache what input costs, written to one 1.25 times
    that, written to one for an hour twice that.
    """

    input: PerMillion
    output: PerMillion
    cached: PerMillion | None = None
    cache_write: PerMillion | None = None
    cache_hour: PerMillion | None = None
    max_output_tokens: int = Field(32_768, ge=1, le=10**7, description="held back where a call names no limit")

    def cost_usd(self, usage: Usage) -> float:
        """What `usage` costs."""
        cached = self.input if self.cached is None else self.cached
        cache_hour = self._cache_hour()
        plain = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
        return (
            plain * self.input
            + usage.cached_tokens * cached
            + (usage.cache_write_tokens - usage.cache_hour_tokens) * self._cache_write()
            + usage.cache_hour_tokens * cache_hour
            + usage.output_tokens * self.output
        ) / 1e6

    def worst_case_usd(self, input_tokens: int, output_tokens: int) -> float:
        """The most that so many tokens can cost, whatever of them goes through a cache."""
        dearest = max(self.input, self.cached or 0, self._cache_write(), self._cache_hour())
        return (input_tokens * dearest + output_tokens * self.output) / 1e6

    def _cache_write(self) -> float:
        return self.input * 1.25 if self.cache_write is None else self.cache_write

    def _cache_hour(self) -> float:
        return self.input * 2 if self.cache_hour is None else self.cache_hour


class PriceTable(Frozen):
    """Prices by model name. `unknown`: a model that is not listed is counted as the dearest one, or refused."""

    models: dict[str, Price] = Field(min_length=1)
    unknown: Literal["dearest", "refuse"] = "dearest"

    def price_of(self, model: str) -> Price | None:
        """The price of `model` (its dated names included); `None` where it is to be refused."""
        found = self.models.get(model) or self.models.get(DATED.sub("", model))
        if found is None and self.unknown == "dearest":
            return self.dearest()
        return found

    def is_listed(self, model: str) -> bool:
        return model in self.models or DATED.sub("", model) in self.models

    def dearest(self) -> Price:
        """The listed price of which a million tokens each way cost most."""
        return max(self.models.values(), key=lambda price: (price.output + price.input, price.output))


def load_prices(path: Path = DEFAULT_TABLE) -> PriceTable:
    """The table at `path`.

    Raises:
        UsageError: it cannot be read, or does not have the form.
    """
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return PriceTable.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(name) for name in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}", "See harness/gateway/prices.yaml for the form.") from error
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a price table: {type(error).__name__}") from error
