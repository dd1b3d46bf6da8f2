"""Anthropic's messages, and the counting of their tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from harness.gateway.policy import (
    content_parts,
    malformed,
    model_name,
    objects,
    one_of,
    only,
    positive,
    refused,
    shown,
    words,
)
from harness.gateway.protocols.base import Body, CallFacts, Meter, Protocol
from harness.gateway.usage import Usage, count, part, text_bytes

# Not `container`, `mcp_servers`, `speed`, `inference_geo`: state, connectors, and what is priced otherwise.
FIELDS = words(
    "model messages system max_tokens stream temperature top_p top_k stop_sequences tools tool_choice thinking metadata"
    " service_tier output_config output_format context_management cache_control diagnostics"
)
BLOCK_TYPES = ("text", "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking")
SOURCE_TYPES = ("base64", "text", "content")
# Tools of Anthropic's making that the agent itself carries out; all others with a type run at the provider.
LOCAL_TOOLS = ("bash_", "text_editor_", "computer_", "memory_")
# How the message of an empty account begins. Not anywhere in it: other messages repeat what an agent has sent.
CREDIT_GONE = "your credit balance is too low"
SERVICE_TIERS = ("auto", "standard_only")
MAX_DEPTH = 3


class Anthropic(Protocol):
    """`POST /v1/messages`, and `/v1/messages/count_tokens`."""

    name = "anthropic"
    provider = "anthropic"
    query = frozenset(("beta",))
    headers = frozenset(("anthropic-version", "anthropic-beta"))

    def check(self, body: Body, model: str | None, allowed_tools: Collection[str]) -> CallFacts:
        only(body, FIELDS, "the call")
        if body.get("service_tier") is not None:
            one_of(body["service_tier"], SERVICE_TIERS, "service tier")
        _check_tools(body.get("tools"), allowed_tools)
        for block in content_parts(body.get("system"), "system"):
            one_of(block.get("type"), ("text",), "a system block of type")
        for message in objects(body.get("messages"), "messages"):
            _check_blocks(message.get("content"), bool(allowed_tools), MAX_DEPTH)
        return CallFacts(
            model or model_name(body.get("model")),
            body.get("stream") is True,
            positive(body.get("max_tokens"), "max_tokens"),
        )

    def meter(self) -> Meter:
        return _MessagesMeter()

    def error(self, status: int, kind: str, message: str) -> Body:
        del status
        return {"type": "error", "error": {"type": kind, "message": message}}

    def credentials(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key}

    def is_quota_gone(self, status: int, error: Body) -> bool:
        fields = part(error, "error")
        text = str(fields.get("message", "")).lower()
        return status == 402 or fields.get("type") == "billing_error" or text.startswith(CREDIT_GONE)


def _check_tools(tools: Any, allowed_tools: Collection[str]) -> None:
    for tool in objects(tools, "tools"):
        kind = tool.get("type")
        if kind in (None, "custom"):
            continue
        if not isinstance(kind, str) or not (kind.startswith(LOCAL_TOOLS) or kind in allowed_tools):
            raise refused(f"a tool of type {shown(str(kind))}, which runs at the provider,")


def _check_blocks(content: Any, has_tools: bool, depth: int) -> None:
    for block in content_parts(content, "content"):
        kind = block.get("type")
        # What a tool at the provider has left in the conversation.
        is_leftover = has_tools and isinstance(kind, str) and kind.endswith(("server_tool_use", "_tool_result"))
        if not is_leftover:
            one_of(kind, BLOCK_TYPES, "content of type")
        if kind in ("image", "document"):
            _check_source(block.get("source"), has_tools, depth)
        if kind in ("tool_result", "search_result"):
            if depth <= 0:
                raise malformed("content is nested too deeply")
            _check_blocks(block.get("content"), has_tools, depth - 1)


def _check_source(source: Any, has_tools: bool, depth: int) -> None:
    kind = source.get("type") if isinstance(source, dict) else None
    one_of(kind, SOURCE_TYPES, "a source of type")
    if kind == "content":
        if depth <= 0:
            raise malformed("content is nested too deeply")
        _check_blocks(source.get("content"), has_tools, depth - 1)


class _MessagesMeter(Meter):
    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    def take(self, value: Body) -> None:
        kind = value.get("type")
        if kind == "content_block_delta":
            self.text_bytes += text_bytes(part(value, "delta"), "text", "thinking", "partial_json")
            return
        usage = part(value, "usage") or part(part(value, "message"), "usage")
        # A later event repeats or raises the counts; what it leaves out stays.
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"):
            number = count(usage, name)
            if number is not None:
                self._counts[name] = number
        hour = count(part(usage, "cache_creation"), "ephemeral_1h_input_tokens")
        if hour is not None:
            self._counts["hour"] = hour
        if not self._counts:
            return
        self.is_final = self.is_final or kind in ("message_delta", "message")
        cached = self._counts.get("cache_read_input_tokens", 0)
        cache_write = self._counts.get("cache_creation_input_tokens", 0)
        read = self._counts.get("input_tokens", 0) + cached + cache_write
        hour = min(self._counts.get("hour", 0), cache_write)
        self.usage = Usage(read, cached, cache_write, self._counts.get("output_tokens", 0), cache_hour_tokens=hour)
