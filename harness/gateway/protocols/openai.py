"""What both OpenAI protocols share: key, form of errors, quota, and the checks of tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from harness.gateway.policy import objects, one_of, refused, shown
from harness.gateway.protocols.base import Body, Protocol, with_field
from harness.gateway.usage import Usage, count, part

# Not `priority`, which costs more than the table says.
SERVICE_TIERS = ("auto", "default", "flex")
GONE = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated")
MAX_NESTED_TOOLS = 2


class OpenAi(Protocol):
    """Base of the two."""

    provider = "openai"
    stores_by_default: ClassVar[bool]

    def error(self, status: int, kind: str, message: str) -> Body:
        del status
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}

    def credentials(self, key: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key}"}

    def is_quota_gone(self, status: int, error: Body) -> bool:
        fields = part(error, "error")
        return status == 402 or fields.get("code") in GONE or fields.get("type") in GONE

    def forwarded(self, raw: bytes, body: Body) -> bytes:
        # Nothing of a run is kept at the provider; without the field, `stores_by_default` tells what it would do.
        if body.get("store") is False or ("store" not in body and not self.stores_by_default):
            return raw
        return with_field(raw, body, "store", False)


def check_tier(body: Body) -> None:
    """Refuses tiers that are priced otherwise.

    Raises:
        LlmRefusal: it is one.
    """
    if body.get("service_tier") is not None:
        one_of(body["service_tier"], SERVICE_TIERS, "service tier")


def check_tools(
    tools: Any, local_types: Collection[str], allowed_tools: Collection[str], depth: int = MAX_NESTED_TOOLS
) -> None:
    """Refuses tools that run at the provider, unless the run allows them.

    Raises:
        LlmRefusal: there is one.
    """
    for tool in objects(tools, "tools"):
        kind = tool.get("type")
        if kind == "namespace" and "namespace" in local_types and depth > 0:
            check_tools(tool.get("tools"), local_types, allowed_tools, depth - 1)
        elif not isinstance(kind, str) or (kind not in local_types and kind not in allowed_tools):
            raise refused(f"a tool of type {shown(str(kind))}, which runs at the provider,")


def usage_of(read: int, written: int, read_details: Body, written_details: Body) -> Usage:
    """Usage from the counts and details that both protocols tell, under names of their own."""
    cached = min(read, count(read_details, "cached_tokens") or 0)
    # Some compatible servers bill what they write to a cache.
    cache_write = min(read - cached, count(read_details, "cache_write_tokens") or 0)
    return Usage(read, cached, cache_write, written, count(written_details, "reasoning_tokens") or 0)
