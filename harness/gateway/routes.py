"""The paths that agents may call, and what each of them is; everything else is not there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.gateway.protocols.anthropic import Anthropic
from harness.gateway.protocols.base import Protocol
from harness.gateway.protocols.gemini import Gemini
from harness.gateway.protocols.openai_chat import OpenAiChat
from harness.gateway.protocols.openai_responses import OpenAiResponses

CHAT, RESPONSES, ANTHROPIC, GEMINI = OpenAiChat(), OpenAiResponses(), Anthropic(), Gemini()
FIXED: dict[str, tuple[Protocol, bool]] = {
    "/v1/chat/completions": (CHAT, True),
    "/v1/responses": (RESPONSES, True),
    "/v1/messages": (ANTHROPIC, True),
    "/v1/messages/count_tokens": (ANTHROPIC, False),
}
GEMINI_PATH = re.compile(r"/v1(?:beta)?/models/([A-Za-z0-9][A-Za-z0-9._-]{0,99}):(\w{1,40})")
GEMINI_VERBS = {"generateContent": True, "streamGenerateContent": True, "countTokens": False}
MODEL_LISTS = ("/v1/models", "/v1beta/models")


@dataclass(frozen=True)
class Route:
    """One kind of call: its protocol, whether it is paid for, and what the path tells: the model, a stream."""

    protocol: Protocol
    path: str
    is_billed: bool
    model: str | None = None
    is_stream: bool = False


def route_of(path: str) -> Route | None:
    """What a POST to `path` is; `None` if agents may not call it."""
    if path in FIXED:
        protocol, is_billed = FIXED[path]
        return Route(protocol, path, is_billed)
    match = GEMINI_PATH.fullmatch(path)
    if match is None or match[2] not in GEMINI_VERBS or ".." in match[1]:
        return None
    return Route(GEMINI, path, GEMINI_VERBS[match[2]], match[1], match[2] == "streamGenerateContent")


def protocol_for_errors(path: str) -> Protocol:
    """The protocol whose clients are likely to read an error on `path`."""
    if path.startswith("/v1beta/"):
        return GEMINI
    if path.startswith("/v1/messages"):
        return ANTHROPIC
    return RESPONSES if path.startswith("/v1/responses") else CHAT
