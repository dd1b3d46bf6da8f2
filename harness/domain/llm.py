"""What the harness and the LLM gateway say to each other over the gateway's admin socket (wire models, both sides)."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from harness.domain.base import Frozen, Numbered
from harness.domain.hosts import HostPattern

RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}$"
MAX_TOKENS = 10**12
# Kinds of events.
OVER_BUDGET, QUOTA_GONE, KEY_REFUSED = "over_budget", "quota_gone", "key_refused"

# Whose protocol an agent's client speaks; the upstream may be any server that speaks it too.
Provider = Literal["openai", "anthropic", "gemini"]
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "gemini")

Count = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Dollars = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class LlmBudget(Frozen):
    """What a run may use of its driver LLM; `None` is no limit. `tokens` are those read and those written together."""

    usd: Dollars | None = None
    tokens: Count | None = None
    requests: Count | None = None


class DriverLlm(Frozen):
    """The LLM that drives a run's agent: where the gateway finds it, under which name, and what may be used of it.

    `key_from` says where the gateway's key comes from (a file's path, or the name of a setting); empty: none is sent.
    `tools` are those at the provider that the run may use, by their type.
    """

    provider: Provider
    url: str
    model: str
    key_from: str = ""
    budget: LlmBudget = LlmBudget()
    tools: tuple[str, ...] = ()


class ModelList(Frozen):
    """What a provider says to the question which models it has; `error` tells more where it does not say."""

    provider: Provider
    status: Literal["ok", "unreachable", "key_refused", "no_such_route", "failed"]
    models: tuple[str, ...] = ()
    error: str = ""


class LlmRun(Frozen):
    """`POST /runs`: opens a run; idempotent for equal values. `token_sha256` is hex, `subnets` are CIDRs."""

    run_id: str = Field(pattern=RUN_ID)
    token_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    subnets: tuple[str, ...] = Field(min_length=1, max_length=16)
    budget: LlmBudget = LlmBudget()
    models: tuple[str, ...] = Field((), max_length=256, description="empty: any")
    allowed_tools: tuple[str, ...] = Field(
        (), max_length=64, description="tools that run at the provider, by their type"
    )
    max_parallel: int = Field(64, ge=1, le=1024)
    allowed_hosts: tuple[HostPattern, ...] = Field((), max_length=1024, description="reached through the proxy")

    @field_validator("subnets")
    @classmethod
    def _are_networks(cls, subnets: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(ip_network(subnet)) for subnet in subnets)


class LlmUsage(Frozen):
    """What a run has used so far, settled calls only; `open_calls` are those under way, `held_usd` is held for them."""

    run_id: str
    is_open: bool
    requests: Count = 0
    refused: Count = 0
    input_tokens: Count = 0
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Dollars = 0.0
    open_calls: Count = 0
    held_usd: Dollars = 0.0
    is_over_budget: bool = False


class LlmCall(Numbered):
    """One call as it was metered: a row of `llm_call`. Input includes what was read from a cache or written to one."""

    run_id: str
    at: datetime
    provider: str
    model: str
    http_status: int
    input_tokens: Count = 0
    cached_tokens: Count = 0
    cache_write_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Dollars = 0.0
    seconds: float = 0.0
    detail: dict[str, Any] = Field(default_factory=dict)


class LlmCalls(Frozen):
    """`POST /runs/{id}/llm-calls` of the grader: calls to be written down; one that is there already stays as it is."""

    calls: tuple[LlmCall, ...] = Field(max_length=5000)


class Answering(Frozen):
    """`POST /runs/{id}/ask-again`: whether the provider answers a call that it has answered before, if there is one."""

    is_known: bool
    is_answered: bool = False


class LlmEvent(Frozen):
    """Something the harness must act on: `over_budget`, `quota_gone` or `key_refused`; numbered from 1."""

    number: Count
    at: datetime
    run_id: str
    kind: str
    detail: str = ""
