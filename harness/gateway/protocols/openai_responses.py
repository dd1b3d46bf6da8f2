"""OpenAI's Responses, used without any state at the provider."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from harness.gateway.policy import content_parts, inline_image, malformed, model_name, one_of, only, positive, words
from harness.gateway.protocols.base import Body, CallFacts, Meter
from harness.gateway.protocols.openai import OpenAi, check_tier, check_tools, usage_of
from harness.gateway.usage import count, part, text_bytes

# Not `previous_response_id`, `conversation`, `background`, `prompt`: state and work that outlive the call.
FIELDS = words(
    "model input instructions stream stream_options temperature top_p max_output_tokens tools tool_choice"
    " parallel_tool_calls reasoning text include store metadata client_metadata user prompt_cache_key"
    " prompt_cache_retention safety_identifier service_tier truncation top_logprobs max_tool_calls"
)
INCLUDED = ("reasoning.encrypted_content", "message.output_text.logprobs")
ITEM_TYPES = words(
    "message function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call"
    " local_shell_call_output apply_patch_call apply_patch_call_output reasoning compaction"
)
PART_TYPES = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text", "input_image")
TOOL_TYPES = ("function", "custom", "local_shell", "apply_patch", "namespace")
FINAL = ("response.completed", "response.incomplete", "response.failed")


class OpenAiResponses(OpenAi):
    """`POST /v1/responses`."""

    name = "openai-responses"
    stores_by_default = True

    def check(self, body: Body, model: str | None, allowed_tools: Collection[str]) -> CallFacts:
        only(body, FIELDS, "the call")
        check_tier(body)
        check_tools(body.get("tools"), TOOL_TYPES, allowed_tools)
        if not isinstance(body.get("instructions") or "", str):
            raise malformed("instructions must be text")
        include = body.get("include") or []
        for name in include if isinstance(include, list) else [include]:
            one_of(name, INCLUDED, "include of")
        types = [*ITEM_TYPES, *(f"{tool}_call" for tool in allowed_tools)]
        for item in content_parts(body.get("input"), "input"):
            _check_item(item, types)
        return CallFacts(
            model or model_name(body.get("model")),
            body.get("stream") is True,
            positive(body.get("max_output_tokens"), "max_output_tokens"),
        )

    def meter(self) -> Meter:
        return _ResponsesMeter()


def _check_item(item: dict[str, Any], types: Collection[str]) -> None:
    one_of(item.get("type", "message"), types, "input of type")
    for field in ("content", "output", "summary"):
        value = item.get(field)
        if isinstance(value, dict):
            # apply_patch and local_shell put plain results there.
            if "type" in value or "file_id" in value:
                raise malformed(f"{field} must be text or a list of parts")
            continue
        for piece in content_parts(value, field):
            one_of(piece.get("type"), PART_TYPES, "content of type")
            if piece["type"] == "input_image" or "image_url" in piece or piece.get("file_id"):
                inline_image(None if piece.get("file_id") else piece.get("image_url"))


class _ResponsesMeter(Meter):
    def take(self, value: Body) -> None:
        kind = value.get("type")
        if isinstance(kind, str) and kind.endswith(".delta"):
            self.text_bytes += text_bytes(value, "delta")
            return
        answer = part(value, "response") or value
        usage = part(answer, "usage")
        read, written = count(usage, "input_tokens"), count(usage, "output_tokens")
        if read is None and written is None:
            return
        self.is_final = kind in FINAL or answer is value
        self.usage = usage_of(
            read or 0, written or 0, part(usage, "input_tokens_details"), part(usage, "output_tokens_details")
        )
