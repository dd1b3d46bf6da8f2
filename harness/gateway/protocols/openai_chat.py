"""OpenAI's chat completions, and whatever is compatible with them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from harness.gateway.policy import (
    answers,
    content_parts,
    inline_image,
    model_name,
    objects,
    one_of,
    only,
    positive,
    words,
)
from harness.gateway.protocols.base import Body, CallFacts, Meter, with_field
from harness.gateway.protocols.openai import OpenAi, check_tier, check_tools, usage_of
from harness.gateway.usage import count, part, parts, text_bytes

FIELDS = words(
    "model messages stream stream_options temperature top_p top_k min_p n stop seed user max_tokens"
    " max_completion_tokens presence_penalty frequency_penalty repetition_penalty logit_bias logprobs top_logprobs"
    " tools tool_choice parallel_tool_calls functions function_call response_format reasoning_effort reasoning"
    " verbosity thinking enable_thinking chat_template_kwargs service_tier store metadata prompt_cache_key"
    " prompt_cache_retention safety_identifier prediction"
)
MESSAGE_FIELDS = words(
    "role content name tool_calls tool_call_id function_call refusal reasoning reasoning_content reasoning_details"
    " annotations cache_control thinking_blocks provider_specific_fields"
)
PART_TYPES = ("text", "refusal", "image_url", "thinking")
PART_FIELDS = words("type text refusal image_url cache_control thinking signature")
STREAM_FIELDS = frozenset(("include_usage", "include_obfuscation"))
TOOL_TYPES = ("function", "custom")


class OpenAiChat(OpenAi):
    """`POST /v1/chat/completions`."""

    name = "openai-chat"
    # And not every compatible server knows the field.
    stores_by_default = False

    def check(self, body: Body, model: str | None, allowed_tools: Collection[str]) -> CallFacts:
        only(body, FIELDS, "the call")
        check_tier(body)
        check_tools(body.get("tools"), TOOL_TYPES, allowed_tools)
        only(part(body, "stream_options"), STREAM_FIELDS, "stream_options")
        for message in objects(body.get("messages"), "messages"):
            only(message, MESSAGE_FIELDS, "a message")
            for piece in content_parts(message.get("content"), "content"):
                _check_part(piece)
        limits = [positive(body.get(name), name) for name in ("max_completion_tokens", "max_tokens")]
        return CallFacts(
            model or model_name(body.get("model")),
            body.get("stream") is True,
            max((limit for limit in limits if limit is not None), default=None),
            answers(body.get("n"), "n"),
        )

    def forwarded(self, raw: bytes, body: Body) -> bytes:
        raw = super().forwarded(raw, body)
        if not self.is_buffered(body):
            return raw
        # Without this option a stream tells no usage.
        changed = {**body, "store": False} if "store" in body else body
        return with_field(raw, changed, "stream_options", {**part(body, "stream_options"), "include_usage": True})

    def is_buffered(self, body: Body) -> bool:
        return body.get("stream") is True and part(body, "stream_options").get("include_usage") is not True

    def hides(self, event: Body) -> bool:
        return event.get("choices") == [] and isinstance(event.get("usage"), dict)

    def meter(self) -> Meter:
        return _ChatMeter()


def _check_part(piece: dict[str, Any]) -> None:
    one_of(piece.get("type"), PART_TYPES, "content of type")
    only(piece, PART_FIELDS, "a content part")
    if "image_url" in piece:
        image = piece["image_url"]
        inline_image(image.get("url") if isinstance(image, dict) else image)


class _ChatMeter(Meter):
    def take(self, value: Body) -> None:
        for choice in parts(value, "choices"):
            delta = part(choice, "delta")
            self.text_bytes += text_bytes(delta, "content", "refusal", "reasoning", "reasoning_content")
            for call in parts(delta, "tool_calls"):
                self.text_bytes += text_bytes(part(call, "function"), "name", "arguments")
        usage = part(value, "usage")
        read, written = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
        if read is None and written is None:
            return
        self.is_final = True
        self.usage = usage_of(
            read or 0, written or 0, part(usage, "prompt_tokens_details"), part(usage, "completion_tokens_details")
        )
