"""Bodies, retries, headers and configuration: what is let through, and what is bounded."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard

from harness.errors import LlmRefusal, PrerequisiteError, UsageError
from harness.gateway.bodies import Room, parsed, read_body, unpacked
from harness.gateway.caller import parameters_of
from harness.gateway.config import Limits, Upstream, load_config
from harness.gateway.retry import Patience, asked_for_s
from harness.gateway.routes import ANTHROPIC, CHAT
from harness.gateway.upstream import passed_headers

RAW = json.dumps({"model": "m", "text": "ö" * 5000}).encode()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_packed_bodies_are_unpacked() -> None:
    assert unpacked(RAW, "", 10**6) == unpacked(RAW, "identity", 10**6) == RAW
    assert unpacked(gzip.compress(RAW), "gzip", len(RAW)) == RAW
    assert unpacked(zstandard.ZstdCompressor().compress(RAW), "zstd", len(RAW)) == RAW
    frame = zstandard.ZstdCompressor().compressobj()
    assert unpacked(frame.compress(RAW) + frame.flush(), "zstd", len(RAW)) == RAW


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_that_becomes_too_large_is_refused(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
    with pytest.raises(LlmRefusal) as refusal:
        unpacked(pack(b"\0" * 10_001), encoding, 10_000)
    assert refusal.value.status == 413


def test_a_window_that_would_take_the_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = packed.compress(b"x") + packed.flush()
    with pytest.raises(LlmRefusal) as refusal:
        unpacked(body, "zstd", 10_000)
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b'{"a": 1, "a": 2}', b"[" * 10**5, b'{"a": ' + b"1" * 50 + b"}", b"\xff"]
)
def test_bodies_that_two_readers_could_understand_differently_are_refused(raw: bytes) -> None:
    with pytest.raises(LlmRefusal):
        parsed(raw)


def receive_of(*messages: dict[str, Any], pause_s: float = 0) -> Any:
    waiting = list(messages)

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(pause_s)
        return waiting.pop(0)

    return receive


def piece(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def read(room: Room, *messages: dict[str, Any], pause_s: float = 0, max_bytes: int = 100) -> bytes:
    async def scenario() -> bytes:
        with room.share() as take:
            return await read_body(receive_of(*messages, pause_s=pause_s), take, max_bytes, 0.05)

    return asyncio.run(scenario())


def test_a_body_in_pieces_is_read_whole() -> None:
    assert read(Room(100), piece(b"ab"), piece(b"cd"), piece(b"", False)) == b"abcd"


@pytest.mark.parametrize(
    ("messages", "pause_s", "status"),
    [
        ([piece(b"x" * 60), piece(b"x" * 60, False)], 0, 413),
        ([piece(b"x")] * 50, 0.01, 408),
        ([piece(b"x"), {"type": "http.disconnect"}], 0, 400),
        ([piece(b"x" * 99), piece(b"x" * 80, False)], 0, 413),
    ],
)
def test_bodies_are_bounded_in_size_and_time(messages: list[dict[str, Any]], pause_s: float, status: int) -> None:
    with pytest.raises(LlmRefusal) as refusal:
        read(Room(1000), *messages, pause_s=pause_s)
    assert refusal.value.status == status


def test_all_bodies_together_have_a_bound_and_give_it_back() -> None:
    room = Room(100)
    with room.share() as take:
        take(60)
        with pytest.raises(LlmRefusal) as refusal:
            read(room, piece(b"x" * 50, False))
        assert refusal.value.status == 503
    assert read(room, piece(b"x" * 90, False)) == b"x" * 90


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "3", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:09 GMT"}, 9.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert asked_for_s(headers, NOW) == expected


def test_waiting_grows_and_ends() -> None:
    patience = Patience(Limits(attempts=4, backoff_s=1))
    waits = []
    for attempt in range(1, 6):
        patience.attempts = attempt
        waits.append(patience.wait_s(None))
    assert all(0.75 * 2**n <= (wait or 0) <= 1.25 * 2**n for n, wait in enumerate(waits[:3]))
    assert waits[3:] == [None, None]


def test_a_longer_wait_than_the_cap_is_the_agents() -> None:
    patience = Patience(Limits(retry_after_s=10, retry_s=15), attempts=1)
    assert patience.wait_s(11) is None
    assert patience.wait_s(9) is not None
    assert patience.wait_s(9) is None


def test_only_listed_headers_pass() -> None:
    given = [
        ("cookie", "a"),
        ("authorization", "Bearer t"),
        ("x-api-key", "t"),
        ("anthropic-beta", "a-1, mcp-client-1"),
        ("anthropic-beta", "b-2,context-1m-2025-08-07"),
        ("anthropic-version", "2023-06-01"),
        ("host", "h"),
        ("accept", "x\ny"),
    ]
    passed = passed_headers(ANTHROPIC, given, "key")
    assert passed["anthropic-beta"] == "a-1,b-2"
    assert passed["x-api-key"] == "key"
    assert not {"cookie", "authorization", "host", "accept"} & passed.keys()
    assert "anthropic-beta" not in passed_headers(CHAT, given, "key")
    assert "authorization" not in passed_headers(CHAT, given, "")


@pytest.mark.parametrize(
    ("value", "is_passed"),
    [
        ("*/*", True),
        ("application/json", True),
        ("application/json; q=0.9, text/event-stream", True),
        ("application/x-protobuf", False),
        ("application/json, application/x-protobuf", False),
        ("*/*, " * 300 + "x", False),
    ],
)
def test_a_form_of_answer_that_could_not_be_metered_is_not_asked_for(value: str, is_passed: bool) -> None:
    assert ("accept" in passed_headers(CHAT, [("accept", value)], "")) is is_passed


def test_many_parameters_are_none() -> None:
    assert parameters_of({"query_string": b"alt=sse&key=a"}) == {"alt": "sse", "key": "a"}
    assert parameters_of({"query_string": b"&".join(b"a=b" for _ in range(5000))}) == {}


def config(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "gateway.yaml"
    path.write_text(yaml.safe_dump(value))
    return path


def test_a_configuration_names_where_keys_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(" secret \n")
    monkeypatch.setenv("A_KEY", "other")
    upstreams = {
        "openai": {"url": "http://h/v1", "key_file": str(tmp_path / "key")},
        "gemini": {"url": "https://g", "key_env": "A_KEY"},
    }
    found = load_config(config(tmp_path, {"upstreams": upstreams, "prices": "p.yaml"}))
    assert found.prices == tmp_path / "p.yaml"
    assert found.upstreams["openai"].key().get_secret_value() == "secret"
    assert found.upstreams["gemini"].key().get_secret_value() == "other"
    assert "secret" not in repr(found.upstreams["openai"].key())
    assert Upstream(url="http://h/v1").key().get_secret_value() == ""


def openai(**fields: str) -> dict[str, Any]:
    return {"upstreams": {"openai": {"url": "http://h", **fields}}}


MALFORMED = [
    None,
    {},
    {"upstreams": None},
    {"upstreams": {"mine": {"url": "http://h"}}},
    openai(url="h"),
    openai(url="http://user:hunter2@h"),
    openai(key="hunter2"),
    openai(key_env="A", key_file="b"),
    {**openai(), "limits": {"attempts": 0}},
]


@pytest.mark.parametrize("value", MALFORMED)
def test_a_configuration_without_the_form_is_refused_and_not_shown(tmp_path: Path, value: Any) -> None:
    with pytest.raises(UsageError, match=r"gateway\.yaml") as error:
        load_config(config(tmp_path, value))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("text", ["", "\n", "two\nlines", "ümlaut"])
def test_a_key_that_is_none_is_told_by_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(PrerequisiteError, match="holds no key"):
        Upstream(url="http://h", key_file=tmp_path / "key").key()
    with pytest.raises(PrerequisiteError, match="NO_SUCH_NAME"):
        Upstream(url="http://h", key_env="NO_SUCH_NAME").key()


def test_a_date_without_a_zone_is_utc() -> None:
    later = (NOW + timedelta(seconds=5)).strftime("%a, %d %b %Y %H:%M:%S")
    assert asked_for_s({"retry-after": later}, NOW) == 5.0
