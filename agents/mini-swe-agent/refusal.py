"""Which of the gateway's refusals are final."""

from __future__ import annotations

CODES = ("budget_exceeded", "provider_stopped")


def is_final(error: BaseException) -> bool:
    """Whether the budget is spent, or the provider takes no more: some clients keep the status, others the text."""
    return getattr(error, "status_code", None) == 402 or any(code in str(error) for code in CODES)
