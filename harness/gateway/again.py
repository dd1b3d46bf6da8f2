"""What a provider has answered, asked again: whether a failure is the provider's, or of what an agent has sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
from loguru import logger

from harness.domain.llm import Answering
from harness.gateway.upstream import Request, answers

MAX_BODY_BYTES = 2**20
# A provider that takes so many times as long as it did, and longer than a moment, does not answer.
SLOWER, LEAST_S = 3.0, 20.0
MAX_TAKEN_S = 20.0


@dataclass(frozen=True)
class _Known:
    request: Request
    seconds: float


class Again:
    """The fastest request of each run that was answered: an agent can make others slow, large or wrong, not this one.

    It is known until its run is closed, or the gateway ends.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def note(self, run_id: str, request: Request, seconds: float) -> None:
        """A request was answered."""
        known = self._known.get(run_id)
        is_fit = len(request.body) <= MAX_BODY_BYTES and seconds <= MAX_TAKEN_S
        if is_fit and (known is None or seconds < known.seconds):
            self._known[run_id] = _Known(request, seconds)

    def forget(self, run_id: str) -> None:
        """The run is closed."""
        self._known.pop(run_id, None)

    async def ask(self, client: httpx.AsyncClient, run_id: str) -> Answering:
        """Whether the provider answers now; asked once, as it has been patient with the agent already."""
        known = self._known.get(run_id)
        if known is None:
            return Answering(is_known=False)
        try:
            async with asyncio.timeout(max(LEAST_S, SLOWER * known.seconds)):
                is_answered = await answers(client, known.request)
        except (TimeoutError, httpx.HTTPError):
            is_answered = False
        logger.info("asked again for {}: the provider {}", run_id, "answers" if is_answered else "does not answer")
        return Answering(is_known=True, is_answered=is_answered)
