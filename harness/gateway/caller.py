"""Who calls: the run that a request's token belongs to, from the places where clients put tokens."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from harness.errors import LlmRefusal
from harness.gateway.registry import OpenRun, Registry

Scope = MutableMapping[str, Any]
KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
MAX_PARAMETERS = 20


def headers_of(scope: Scope) -> list[tuple[str, str]]:
    """The request's headers, names in lower case."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


def parameters_of(scope: Scope) -> dict[str, str]:
    """The request's query parameters, the last of each name; none where there are too many."""
    try:
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=MAX_PARAMETERS)
    except ValueError:
        return {}
    return dict(pairs)


def caller_of(scope: Scope, registry: Registry) -> tuple[OpenRun, str]:
    """The open run that calls, and its token.

    Raises:
        LlmRefusal: no token, one that is no open run's, or one that comes from elsewhere than its run's network.
    """
    address = scope["client"][0] if scope.get("client") else ""
    for token in _tokens(scope):
        run = registry.find(token, address)
        if run is not None:
            return run, token
    raise LlmRefusal(401, "authentication_error", "this token is not that of an open run")


def _tokens(scope: Scope) -> Iterator[str]:
    for name, value in headers_of(scope):
        if name == "authorization" and value[:7].lower() == "bearer ":
            yield value[7:].strip()
        elif name in KEY_HEADERS:
            yield value
    if key := parameters_of(scope).get("key"):
        yield key
