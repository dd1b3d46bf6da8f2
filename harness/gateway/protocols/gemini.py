"""Gemini's generateContent, streamed as server-sent events or whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from harness.gateway.policy import MAX_ANSWERS, answers, malformed, objects, only, positive, refused, shown, words
from harness.gateway.protocols.base import Body, CallFacts, Meter, Protocol
from harness.gateway.usage import Usage, count, part, parts, text_bytes

# JSON of Google's services knows every name in two spellings.
FIELDS = words(
    "contents systemInstruction system_instruction tools toolConfig tool_config safetySettings safety_settings"
    " generationConfig generation_config model"
)
PART_FIELDS = words(
    "text inlineData inline_data functionCall function_call functionResponse function_response thought"
    " thoughtSignature thought_signature"
)
CONFIG_FIELDS = words(
    "stopSequences stop_sequences responseMimeType response_mime_type responseSchema response_schema"
    " responseJsonSchema response_json_schema _responseJsonSchema candidateCount candidate_count maxOutputTokens"
    " max_output_tokens temperature topP top_p topK top_k seed presencePenalty presence_penalty frequencyPenalty"
    " frequency_penalty responseLogprobs response_logprobs logprobs thinkingConfig thinking_config"
)
LOCAL_TOOLS = frozenset(("functionDeclarations", "function_declarations"))
# What runs at the provider leaves parts of its own in the conversation.
TOOL_PARTS = frozenset(("executableCode", "executable_code", "codeExecutionResult", "code_execution_result"))
KINDS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
LATER_KINDS = {413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


class Gemini(Protocol):
    """`POST /v1beta/models/<model>:generateContent` and `:streamGenerateContent?alt=sse`."""

    name = "gemini"
    provider = "gemini"
    query = frozenset(("alt",))

    def check(self, body: Body, model: str | None, allowed_tools: Collection[str]) -> CallFacts:
        if model is None:
            raise malformed("the path names no model")
        only(body, FIELDS, "the call")
        if str(body.get("model") or model).removeprefix("models/") != model:
            raise malformed("the body names another model than the path")
        for tool in objects(body.get("tools"), "tools"):
            for name, value in tool.items():
                if name not in LOCAL_TOOLS and name not in allowed_tools and value is not None:
                    raise refused(f"tool {shown(name)}, which runs at the provider,")
        part_fields = PART_FIELDS | TOOL_PARTS if allowed_tools else PART_FIELDS
        system = _either(body, "systemInstruction", "system_instruction")
        for content in [*objects(body.get("contents"), "contents"), *objects([system] if system else None, "system")]:
            _check_parts(content.get("parts"), part_fields)
        config = _either(body, "generationConfig", "generation_config") or {}
        if not isinstance(config, dict):
            raise malformed("generationConfig must be an object")
        only(config, CONFIG_FIELDS, "generationConfig")
        limit = positive(_either(config, "maxOutputTokens", "max_output_tokens"), "maxOutputTokens")
        number = answers(_either(config, "candidateCount", "candidate_count"), "candidateCount")
        return CallFacts(model, False, limit, min(number, MAX_ANSWERS))

    def meter(self) -> Meter:
        return _GeminiMeter()

    def error(self, status: int, kind: str, message: str) -> Body:
        name = KINDS.get(status) or LATER_KINDS.get(status) or kind.upper()
        return {"error": {"code": status, "message": message, "status": name}}

    def credentials(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    def is_quota_gone(self, status: int, error: Body) -> bool:
        fields = part(error, "error")
        per_day = any(
            "PerDay" in str(violation.get("quotaId", ""))
            for detail in parts(fields, "details")
            for violation in parts(detail, "violations")
        )
        is_billing = "billing" in str(fields.get("message", "")).lower()
        return status == 402 or (status in (403, 429) and (per_day or is_billing))


def _either(mapping: Mapping[str, Any], name: str, other: str) -> Any:
    """The value under one of two spellings."""
    if mapping.get(name) is not None and mapping.get(other) is not None:
        raise malformed(f"{name} is given twice, in both of its spellings")
    return mapping.get(name) if mapping.get(name) is not None else mapping.get(other)


def _check_parts(content: Any, fields: Collection[str]) -> None:
    for piece in objects([content] if isinstance(content, dict) else content, "parts"):
        only(piece, fields, "a part")
        answer = _either(piece, "functionResponse", "function_response")
        for nested in objects(answer.get("parts") if isinstance(answer, dict) else None, "parts"):
            only(nested, ("inlineData", "inline_data"), "a part of a functionResponse")


class _GeminiMeter(Meter):
    def take(self, value: Body) -> None:
        for candidate in parts(value, "candidates"):
            self.is_final = self.is_final or candidate.get("finishReason") is not None
            for piece in parts(part(candidate, "content"), "parts"):
                self.text_bytes += text_bytes(piece, "text")
                self.text_bytes += len(str(piece["functionCall"])) if "functionCall" in piece else 0
        usage = part(value, "usageMetadata")
        read = count(usage, "promptTokenCount")
        if read is None:
            return
        # A prompt that is refused has usage and no candidate.
        self.is_final = self.is_final or "promptFeedback" in value
        read += count(usage, "toolUsePromptTokenCount") or 0
        thoughts = count(usage, "thoughtsTokenCount") or 0
        written = (count(usage, "candidatesTokenCount") or 0) + thoughts
        self.usage = Usage(read, min(count(usage, "cachedContentTokenCount") or 0, read), 0, written, thoughts)
