"""What every protocol can do: check a call, read its usage, and refuse in the provider's own form."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness.gateway.usage import Usage, estimated_tokens

Body = dict[str, Any]


@dataclass(frozen=True)
class CallFacts:
    """What a checked body says: the model, whether it streams, the limit of its output, how many answers."""

    model: str
    is_stream: bool
    max_output_tokens: int | None = None
    answers: int = 1


class Meter(ABC):
    """Collects the usage of one call from its events, or from its whole answer."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        # Whether the provider has told the whole of it; a stream that is cut before that is estimated.
        self.is_final = False
        self.text_bytes = 0

    @abstractmethod
    def take(self, value: Body) -> None:
        """Reads one event, or a whole answer."""

    def settled(self, request_bytes: int, hidden_tokens: int = 0) -> tuple[Usage, bool]:
        """The usage, and whether it is an estimate, when no more will come; `hidden_tokens` may be unseen."""
        known = self.usage or Usage()
        if self.is_final and self.usage is not None:
            return known, False
        written = max(known.output_tokens, estimated_tokens(self.text_bytes), hidden_tokens)
        read = known.input_tokens or estimated_tokens(request_bytes)
        return replace(known, input_tokens=read, output_tokens=written), True


class Protocol(ABC):
    """One wire protocol."""

    name: ClassVar[str]
    # Whose key and address it needs.
    provider: ClassVar[str]
    # Query parameters that are passed on.
    query: ClassVar[frozenset[str]] = frozenset()
    # Request headers that are passed on, beside those that all protocols share.
    headers: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def check(self, body: Body, model: str | None, allowed_tools: Collection[str]) -> CallFacts:
        """What the body asks for; `model` is the one in the path, if it is there.

        Raises:
            LlmRefusal: something in it is not allowed, or cannot be meant.
        """

    @abstractmethod
    def meter(self) -> Meter:
        """A meter for one call."""

    @abstractmethod
    def error(self, status: int, kind: str, message: str) -> Body:
        """An error as this provider's clients read it."""

    def forwarded(self, raw: bytes, body: Body) -> bytes:
        """The body that is sent: the agent's own bytes, but for what is forced."""
        del body
        return raw

    def hides(self, event: Body) -> bool:
        """Whether an event of a stream that `is_buffered` is there for the meter only."""
        del event
        return False

    def is_buffered(self, body: Body) -> bool:
        """Whether events may be hidden, so that a stream is passed on event by event."""
        del body
        return False

    @abstractmethod
    def credentials(self, key: str) -> Mapping[str, str]:
        """The headers that carry the provider's key."""

    @abstractmethod
    def is_quota_gone(self, status: int, error: Body) -> bool:
        """Whether an error means that the account has no more to spend, so that waiting will not help."""


def with_field(raw: bytes, body: Body, name: str, value: Any) -> bytes:
    """`raw` with `name` set to `value`; where the field is new all other bytes stay as they are."""
    if name in body:
        return json.dumps({**body, name: value}, separators=(",", ":")).encode()
    start = raw.index(b"{") + 1
    field = f"{json.dumps(name)}:{json.dumps(value)}".encode()
    return raw[:start] + field + (b"," if body else b"") + raw[start:]
