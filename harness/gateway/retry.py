"""When a provider's refusal is tried again before the agent hears of it, and after how long."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from harness.gateway.config import Limits

# 529 is Anthropic's word for "overloaded"; 408 and 409 are what clients of providers retry as well.
RETRIED = (408, 409, 429, 500, 502, 503, 504, 529)
MAX_BACKOFF_S = 8.0


def asked_for_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a reply asks to wait (`retry-after-ms`, `retry-after` as seconds or date); `None` if it does not."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= value < 1e9:
            return value
    try:
        at = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    # A date without a zone is in UTC.
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


@dataclass
class Patience:
    """What is left of attempts and of waiting for one call."""

    limits: Limits
    attempts: int = 0
    waited_s: float = 0.0

    def wait_s(self, asked_s: float | None) -> float | None:
        """Seconds until the next attempt; `None` where the agent is to hear of it. Counts both."""
        if self.attempts >= self.limits.attempts:
            return None
        backoff = min(MAX_BACKOFF_S, self.limits.backoff_s * 2 ** (self.attempts - 1))
        # Spread, so that parallel calls do not come back together.
        wait = backoff * random.uniform(0.75, 1.25) if asked_s is None else asked_s + random.uniform(0, 0.1)
        if (asked_s or 0) > self.limits.retry_after_s or self.waited_s + wait > self.limits.retry_s:
            return None
        self.waited_s += wait
        return wait
