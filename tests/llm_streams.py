"""Answers of LLM providers in their four protocols, as recorded, and what each of them used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.gateway.protocols.base import Protocol
from harness.gateway.routes import ANTHROPIC, CHAT, GEMINI, RESPONSES
from harness.gateway.usage import Usage


def event(value: dict[str, Any], name: str = "", end: str = "\n") -> bytes:
    head = f"event: {name}{end}" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}{end}{end}".encode()


@dataclass(frozen=True)
class Recorded:
    """One streamed answer, event by event, with the usage that it tells."""

    protocol: Protocol
    events: tuple[bytes, ...]
    usage: Usage

    @property
    def stream(self) -> bytes:
        return b"".join(self.events)


def _chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    return {
        "id": "c-1",
        "object": "chat.completion.chunk",
        "model": "gpt-5.2",
        "choices": choices,
        "usage": None,
        **more,
    }


CHAT_USAGE = {
    "prompt_tokens": 117,
    "completion_tokens": 29,
    "total_tokens": 146,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 11},
}
CHAT_STREAM = Recorded(
    CHAT,
    (
        event(_chunk({"role": "assistant", "content": ""})),
        b": keep-alive\n\n",
        event(_chunk({"content": 'Grüße, \u2028 "quoted" data: not a field\n\n'})),
        event(_chunk({"tool_calls": [{"index": 0, "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]})),
        event(_chunk({}, choices=[], usage=CHAT_USAGE)),
        b"data: [DONE]\n\n",
    ),
    Usage(117, 64, 0, 29, 11),
)
RESPONSES_USAGE = {
    "input_tokens": 300,
    "input_tokens_details": {"cached_tokens": 256},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 32},
    "total_tokens": 340,
}
_ANSWER = {"id": "resp_1", "object": "response", "model": "gpt-5.2", "status": "in_progress", "usage": None}
_DELTA = {"type": "response.output_text.delta", "delta": "Hällo"}
RESPONSES_STREAM = Recorded(
    RESPONSES,
    (
        event({"type": "response.created", "response": _ANSWER}, "response.created"),
        event(_DELTA, "response.output_text.delta"),
        event(
            {
                "type": "response.completed",
                "response": {**_ANSWER, "status": "completed", "usage": RESPONSES_USAGE, "output": [{"x": "y" * 300}]},
            },
            "response.completed",
        ),
    ),
    Usage(300, 256, 0, 40, 32),
)
_START = {"input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1}
_TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me look."}}
_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": []}
ANTHROPIC_STREAM = Recorded(
    ANTHROPIC,
    (
        event({"type": "message_start", "message": {**_MESSAGE, "usage": _START}}, "message_start"),
        event({"type": "ping"}, "ping"),
        event(_TEXT, "content_block_delta"),
        event(
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 55}},
            "message_delta",
        ),
        event({"type": "message_stop"}, "message_stop"),
    ),
    Usage(127, 100, 20, 55, 0),
)


def _candidate(text: str, **more: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}


_METADATA = {"promptTokenCount": 50, "cachedContentTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 20}
GEMINI_STREAM = Recorded(
    GEMINI,
    (
        event(
            {"candidates": [_candidate("Erst")], "usageMetadata": {**_METADATA, "candidatesTokenCount": 1}}, "", "\r\n"
        ),
        event({"candidates": [_candidate("ens", finishReason="STOP")], "usageMetadata": _METADATA}, "", "\r\n"),
    ),
    Usage(50, 10, 0, 23, 20),
)
STREAMS = {
    "openai-chat": CHAT_STREAM,
    "openai-responses": RESPONSES_STREAM,
    "anthropic": ANTHROPIC_STREAM,
    "gemini": GEMINI_STREAM,
}
WHOLE: dict[str, dict[str, Any]] = {
    "openai-chat": {"choices": [{"message": {"content": "hi"}}], "usage": CHAT_USAGE},
    "openai-responses": {**_ANSWER, "status": "completed", "usage": RESPONSES_USAGE},
    "anthropic": {**_MESSAGE, "usage": {**_START, "output_tokens": 55}},
    "gemini": {"candidates": [_candidate("Erstens", finishReason="STOP")], "usageMetadata": _METADATA},
}
