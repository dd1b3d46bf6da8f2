"""What a call may hold in each protocol, and what is refused, with the reason."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from harness.errors import LlmRefusal
from harness.gateway.protocols.base import CallFacts, Protocol
from harness.gateway.routes import ANTHROPIC, CHAT, GEMINI, RESPONSES, route_of

MODEL = {"model": "m"}
USER = {"role": "user", "content": "hi"}
INLINE = "data:image/png;base64,aGk="
REMOTE = "https://example.org/a.png"


def chat(**fields: Any) -> tuple[Protocol, dict[str, Any]]:
    return CHAT, {**MODEL, "messages": [USER], **fields}


def chat_part(**part: Any) -> tuple[Protocol, dict[str, Any]]:
    return chat(messages=[{"role": "user", "content": [part]}])


def responses(**fields: Any) -> tuple[Protocol, dict[str, Any]]:
    return RESPONSES, {**MODEL, "input": "hi", **fields}


def responses_part(**part: Any) -> tuple[Protocol, dict[str, Any]]:
    return responses(input=[{"type": "message", "role": "user", "content": [part]}])


def messages(**fields: Any) -> tuple[Protocol, dict[str, Any]]:
    return ANTHROPIC, {**MODEL, "max_tokens": 10, "messages": [USER], **fields}


def block(**fields: Any) -> tuple[Protocol, dict[str, Any]]:
    return messages(messages=[{"role": "user", "content": [fields]}])


def gemini(**fields: Any) -> tuple[Protocol, dict[str, Any]]:
    return GEMINI, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **fields}


def gemini_part(**part: Any) -> tuple[Protocol, dict[str, Any]]:
    return gemini(contents=[{"role": "user", "parts": [part]}])


def check(call: tuple[Protocol, dict[str, Any]], *allowed_tools: str) -> CallFacts:
    protocol, body = call
    return protocol.check(body, "m" if protocol is GEMINI else None, allowed_tools)


def nested(depth: int) -> dict[str, Any]:
    return {"type": "tool_result", "content": [nested(depth - 1)] if depth else []}


FUNCTION = {"type": "function", "function": {"name": "bash", "parameters": {}}}
ALLOWED = {
    "chat": chat(tools=[FUNCTION], max_tokens=5, n=2, store=True, web_search_options=None),
    "chat image": chat_part(type="image_url", image_url={"url": INLINE}),
    "chat tool result": chat(messages=[{"role": "tool", "tool_call_id": "c", "content": "out"}]),
    "responses": responses(tools=[{"type": "custom", "name": "x"}, {"type": "local_shell"}], store=True),
    "responses namespace": responses(tools=[{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]),
    "responses history": responses(
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "e"},
            {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "out"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": INLINE}]},
        ],
        include=["reasoning.encrypted_content"],
        background=False,
        previous_response_id=None,
    ),
    "messages": messages(
        system=[{"type": "text", "text": "s"}], tools=[{"name": "Bash", "input_schema": {}}], stream=True
    ),
    "messages local tool": messages(tools=[{"type": "bash_20250124", "name": "bash"}]),
    "messages image": block(type="image", source={"type": "base64", "media_type": "image/png", "data": "aGk="}),
    "messages result": block(type="tool_result", tool_use_id="t", content=[{"type": "text", "text": "x"}]),
    "gemini": gemini(tools=[{"functionDeclarations": [{"name": "f"}]}], systemInstruction={"parts": [{"text": "s"}]}),
    "gemini one part": gemini(contents=[{"parts": {"text": "x"}}], generationConfig={"thinkingConfig": {}}),
}
REFUSED = {
    "chat search": chat(web_search_options={"search_context_size": "low"}),
    "chat audio": chat(modalities=["audio"]),
    "chat tool": chat(tools=[{"type": "web_search"}]),
    "chat tool without type": chat(tools=[{"name": "x"}]),
    "chat remote image": chat_part(type="image_url", image_url={"url": REMOTE}),
    "chat remote image as text": chat_part(type="image_url", image_url=REMOTE),
    "chat image beside text": chat_part(type="text", text="x", image_url={"url": REMOTE}),
    "chat file": chat_part(type="file", file={"file_id": "file-1"}),
    "chat unknown field": chat(Tools=[{"type": "web_search"}]),
    "chat tier": chat(service_tier="priority"),
    "chat audio of before": chat(messages=[{"role": "assistant", "audio": {"id": "a"}}]),
    "chat many answers": chat(n=100),
    "responses state": responses(previous_response_id="resp_1"),
    "responses conversation": responses(conversation="conv_1"),
    "responses background": responses(background=True),
    "responses stored prompt": responses(prompt={"id": "pmpt_1"}),
    "responses mcp": responses(tools=[{"type": "mcp", "server_url": REMOTE}]),
    "responses mcp in a namespace": responses(tools=[{"type": "namespace", "tools": [{"type": "mcp"}]}]),
    "responses search": responses(tools=[{"type": "web_search_preview"}]),
    "responses code": responses(tools=[{"type": "code_interpreter", "container": {"type": "auto"}}]),
    "responses shell in a container": responses(tools=[{"type": "shell"}]),
    "responses item": responses(input=[{"type": "item_reference", "id": "msg_1"}]),
    "responses file": responses_part(type="input_file", file_url=REMOTE),
    "responses image": responses_part(type="input_image", image_url=REMOTE),
    "responses image file": responses_part(type="input_image", image_url=INLINE, file_id="file-1"),
    "responses output": responses(input=[{"type": "function_call_output", "output": [{"type": "input_file"}]}]),
    "responses search results": responses(include=["file_search_call.results"]),
    "messages mcp": messages(mcp_servers=[{"type": "url", "url": REMOTE}]),
    "messages container": messages(container="c_1"),
    "messages search": messages(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    "messages code": messages(tools=[{"type": "code_execution_20250825", "name": "code_execution"}]),
    "messages fast": messages(speed="fast"),
    "messages remote image": block(type="image", source={"type": "url", "url": REMOTE}),
    "messages file": block(type="document", source={"type": "file", "file_id": "f"}),
    "messages upload": block(type="container_upload", file_id="f"),
    "messages nested": block(
        type="tool_result", content=[{"type": "document", "source": {"type": "url", "url": REMOTE}}]
    ),
    "messages nested in a document": block(
        type="document", source={"type": "content", "content": [{"type": "image", "source": {"type": "url"}}]}
    ),
    "messages search result": block(type="web_search_tool_result", content=[]),
    "gemini search": gemini(tools=[{"googleSearch": {}}]),
    "gemini search, other spelling": gemini(tools=[{"google_search": {}}]),
    "gemini code": gemini(tools=[{"functionDeclarations": [], "codeExecution": {}}]),
    "gemini urls": gemini(tools=[{"urlContext": {}}]),
    "gemini cache": gemini(cachedContent="cachedContents/1"),
    "gemini file": gemini_part(fileData={"fileUri": REMOTE}),
    "gemini file, other spelling": gemini_part(file_data={"file_uri": REMOTE}),
    "gemini file in an answer": gemini_part(functionResponse={"name": "f", "parts": [{"fileData": {}, "x": 1}]}),
    "gemini file of the system": gemini(systemInstruction={"parts": [{"fileData": {"fileUri": REMOTE}}]}),
    "gemini images": gemini(generationConfig={"responseModalities": ["IMAGE"]}),
}
MALFORMED = {
    "no model": (CHAT, {"messages": []}),
    "model of another type": chat(model=["m"]),
    "a path as model": chat(model="../files"),
    "messages as text": chat(messages="x"),
    "messages of text": chat(messages=["x"]),
    "a limit of zero": chat(max_tokens=0),
    "a limit as text": messages(max_tokens="10"),
    "a huge limit": responses(max_output_tokens=10**12),
    "too deep": block(**nested(5)),
    "instructions with parts": responses(instructions=[{"type": "input_file", "file_url": REMOTE}]),
    "both spellings": gemini(generationConfig={"temperature": 1}, generation_config={"candidateCount": 8}),
    "another model": gemini(model="models/other"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_what_agents_send_is_allowed(name: str) -> None:
    assert check(ALLOWED[name]).model == "m"


@pytest.mark.parametrize("name", [*REFUSED, *MALFORMED])
def test_what_is_not_allowed_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(LlmRefusal) as refusal:
        check({**REFUSED, **MALFORMED}[name])
    assert refusal.value.status == 400
    assert len(str(refusal.value)) > 20
    # Some agents take these for a reason to try again, many times.
    assert not re.search(r"timeout|connection|429|500|502|503", str(refusal.value))


@pytest.mark.parametrize(
    ("call", "tool"),
    [
        (responses(tools=[{"type": "web_search"}], input=[{"type": "web_search_call"}]), "web_search"),
        (chat(tools=[{"type": "web_search"}]), "web_search"),
        (messages(tools=[{"type": "web_search_20250305"}]), "web_search_20250305"),
        (gemini(tools=[{"googleSearch": {}}]), "googleSearch"),
    ],
)
def test_a_run_can_be_allowed_a_tool_of_the_provider(call: tuple[Protocol, dict[str, Any]], tool: str) -> None:
    assert check(call, tool)
    with pytest.raises(LlmRefusal):
        check(call, "another")


def test_limits_are_read_for_the_hold_back() -> None:
    assert check(chat(max_tokens=5, max_completion_tokens=9, n=3)) == CallFacts("m", False, 9, 3)
    assert check(responses(stream=True, max_output_tokens=7)) == CallFacts("m", True, 7)
    assert check(gemini(generationConfig={"maxOutputTokens": 8, "candidateCount": 2})).answers == 2


def sent(call: tuple[Protocol, dict[str, Any]], raw: bytes | None = None) -> bytes:
    protocol, body = call
    return protocol.forwarded(raw if raw is not None else json.dumps(body).encode(), body)


@pytest.mark.parametrize(
    "call", [chat(store=None), chat(store=True), responses(), responses(store=True), responses(store=None)]
)
def test_nothing_is_stored_at_the_provider(call: tuple[Protocol, dict[str, Any]]) -> None:
    assert json.loads(sent(call)) == {**call[1], "store": False}


def test_all_other_bytes_stay_as_they_came() -> None:
    raw = b' { "model" : "m",\n "input": "\\ud83d h\xc3\xa4", "x": 1e3 }'
    body = json.loads(raw)
    assert sent((RESPONSES, body), raw) == raw.replace(b"{", b'{"store":false,', 1)
    done = raw.replace(b"{", b'{"store": false,', 1)
    assert sent((RESPONSES, json.loads(done)), done) == done
    assert sent((ANTHROPIC, body), raw) == raw
    assert sent((GEMINI, body), raw) == raw
    assert sent((CHAT, body), raw) == raw
    assert sent((RESPONSES, {}), b"{}") == b'{"store":false}'


def test_a_streamed_chat_is_asked_for_its_usage() -> None:
    assert json.loads(sent(chat(stream=True)))["stream_options"] == {"include_usage": True}
    given = chat(stream=True, stream_options={"include_usage": False, "include_obfuscation": False})
    assert json.loads(sent(given))["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert "stream_options" not in json.loads(sent(chat()))


def test_the_usage_that_an_agent_did_not_ask_for_is_hidden() -> None:
    extra = {"choices": [], "usage": {"prompt_tokens": 1}}
    assert CHAT.is_buffered(chat(stream=True)[1])
    assert CHAT.hides(extra)
    assert not CHAT.hides({"choices": [{"delta": {}}], "usage": None})
    assert not CHAT.is_buffered(chat(stream=True, stream_options={"include_usage": True})[1])


BILLED = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/g-2.5:generateContent"]


@pytest.mark.parametrize("path", BILLED)
def test_paths_that_are_billed(path: str) -> None:
    route = route_of(path)
    assert route is not None
    assert route.is_billed


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1beta/models/g:countTokens"])
def test_paths_that_cost_nothing(path: str) -> None:
    route = route_of(path)
    assert route is not None
    assert not route.is_billed


@pytest.mark.parametrize(
    "path",
    ["/v1/files", "/v1/responses/resp_1", "/v1/responses/", "/v1//responses", "/v1/batches", "/v1/messages/batches",
     "/v1/assistants", "/v1beta/models/../files:generateContent", "/v1beta/models/g:batchGenerateContent",
     "/v1beta/cachedContents", "/v1beta/models/a/b:generateContent", "/v1/messages%2f",
     "/v1beta/models/g:generateContent\n", "/v1/images/generations", "/v1/fine_tuning/jobs", "/v1/vector_stores", "",
     "/"],
)  # fmt: skip
def test_every_other_path_is_not_there(path: str) -> None:
    assert route_of(path) is None


@pytest.mark.parametrize(
    ("protocol", "status", "error", "expected"),
    [
        (CHAT, 429, {"error": {"code": "insufficient_quota"}}, True),
        (CHAT, 429, {"error": {"type": "insufficient_quota", "code": None}}, True),
        (CHAT, 429, {"error": {"code": "rate_limit_exceeded"}}, False),
        (CHAT, 429, {}, False),
        (ANTHROPIC, 400, {"error": {"message": "Your credit balance is too low to access the API"}}, True),
        (ANTHROPIC, 400, {"error": {"message": "no such tag: 'your credit balance is too low'"}}, False),
        (ANTHROPIC, 429, {"error": {"type": "rate_limit_error"}}, False),
        (ANTHROPIC, 402, {}, True),
        (GEMINI, 429, {"error": {"details": [{"violations": [{"quotaId": "RequestsPerDayPerProject"}]}]}}, True),
        (GEMINI, 429, {"error": {"details": [{"violations": [{"quotaId": "RequestsPerMinute"}]}]}}, False),
        (GEMINI, 400, {"error": {"message": "billing"}}, False),
    ],
)
def test_an_account_that_is_empty_is_told_from_one_in_a_hurry(
    protocol: Protocol, status: int, error: dict[str, Any], expected: bool
) -> None:
    assert protocol.is_quota_gone(status, error) is expected
