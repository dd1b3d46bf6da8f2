"""Asking an OpenAI-compatible endpoint: what is sent, and what each bad reply means."""

from __future__ import annotations

import pytest
from chat_server import chat_server
from pydantic import SecretStr

from harness.authoring.chat import ChatEndpoint
from harness.domain.prompts import Message
from harness.errors import PrerequisiteError, ServiceUnavailable, UsageError

KEY = "sk-very-secret-4711"
ASKED = [Message(role="user", content="hello")]


def endpoint(base_url: str, key: str | None = KEY) -> ChatEndpoint:
    return ChatEndpoint(base_url, "a-model", SecretStr(key) if key else None, longest_wait_s=0)


def test_the_question_goes_out_with_the_key_in_its_header_alone() -> None:
    with chat_server("hi") as server:
        reply = endpoint(server.base_url).ask(ASKED)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("hi", 7, 3)
    assert server.requests == [
        {"path": "/v1/chat/completions", "model": "a-model", "messages": [{"role": "user", "content": "hello"}]}
    ]
    assert server.authorizations == [f"Bearer {KEY}"]


def test_an_endpoint_without_a_key_gets_none() -> None:
    with chat_server("hi") as server:
        endpoint(server.base_url, None).ask(ASKED)
    assert server.authorizations == [None]


def test_a_busy_endpoint_is_asked_again() -> None:
    with chat_server((429, b"later"), (503, b"down"), "hi") as server:
        assert endpoint(server.base_url).ask(ASKED).text == "hi"
    assert len(server.requests) == 3


def test_one_that_stays_busy_is_given_up() -> None:
    with chat_server((429, b"later"), (429, b"later"), (429, b"later"), "hi") as server:
        with pytest.raises(ServiceUnavailable, match="429"):
            endpoint(server.base_url).ask(ASKED)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        ((401, b'{"error": "bad key"}'), PrerequisiteError, "refuses with 401: .*bad key"),
        ((404, b"no such model"), PrerequisiteError, "404: no such model"),
        ((302, b"http://127.0.0.1:9/"), PrerequisiteError, "refuses with 302"),
        ((200, b"<html>"), ServiceUnavailable, "no chat completion"),
        ((200, b"{}"), ServiceUnavailable, "no chat completion"),
        ((200, b'{"choices": []}'), ServiceUnavailable, "no chat completion"),
        ((200, b"[" * 100_000), ServiceUnavailable, "no chat completion"),
        ((200, b"x" * (5 * 2**20)), ServiceUnavailable, "more than"),
    ],
)
def test_other_replies_say_what_is_wrong(reply: tuple[int, bytes], error: type[Exception], words: str) -> None:
    with chat_server(reply, reply, reply) as server, pytest.raises(error, match=words) as caught:
        endpoint(server.base_url).ask(ASKED)
    assert KEY not in str(caught.value)
    assert len(server.requests) <= 3


def test_nobody_there_is_told() -> None:
    with pytest.raises(ServiceUnavailable, match="does not answer: ConnectError"):
        endpoint("http://127.0.0.1:9/v1").ask(ASKED)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/v1", "no plain"),
        ("https://user:pass@host/v1", "no plain"),
        ("https://host/v1?key=x", "no plain"),
        ("host/v1", "no plain"),
        ("http://example.org/v1", "in clear text"),
    ],
)
def test_urls_that_would_give_the_key_away_are_refused(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        endpoint(url)
    assert "pass" not in str(caught.value)


def test_the_key_is_in_no_representation() -> None:
    assert KEY not in repr(endpoint("https://host/v1"))
