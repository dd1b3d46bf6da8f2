"""Where the run's LLM is and how it is spoken to, read from the environment; knows nothing of OpenHands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A call may wait at the gateway for others of the run (15 minutes), and for the provider's own answer.
TIMEOUT_S = 1200
# Of the gateway's refusals: this run gets no further answer, however often it asks.
FINAL_CODES = ("budget_exceeded", "provider_stopped")


def llm_fields(environment: Mapping[str, str]) -> dict[str, Any]:
    """What `openhands.sdk.LLM` is made of, but the key."""
    provider, model = environment["LLM_PROVIDER"], environment["LLM_MODEL"]
    base = environment["LLM_BASE_URL"].rstrip("/")
    fields: dict[str, Any] = {
        # The client library tells providers by this prefix, and would guess without it.
        "model": f"{provider}/{model}",
        "base_url": f"{base}/v1beta" if provider == "gemini" else base,
        "timeout": TIMEOUT_S,
        # The gateway has retried already when it hands on a failure.
        "num_retries": 3,
        "retry_min_wait": 2,
        "retry_max_wait": 30,
    }
    # Unset, it is the provider's own; by itself OpenHands sends `high`, also to servers that refuse the field.
    fields["reasoning_effort"] = environment.get("LLM_REASONING_EFFORT") or None
    if provider == "openai":
        fields["api_mode"] = environment.get("LLM_API_MODE") or "chat"
    for name, key in (("LLM_MAX_INPUT_TOKENS", "max_input_tokens"), ("LLM_MAX_OUTPUT_TOKENS", "max_output_tokens")):
        if environment.get(name):
            fields[key] = int(environment[name])
    return fields


def is_final(error: BaseException) -> bool:
    """Whether an LLM error is a refusal that will not pass: the budget is spent, or the provider takes no more."""
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "status_code", None) == 402 or any(code in str(cause) for code in FINAL_CODES):
            return True
        cause = cause.__cause__
    return False
