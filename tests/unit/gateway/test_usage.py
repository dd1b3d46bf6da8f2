"""Usage out of answers: to the token, wherever a stream is split, and estimated where it is cut."""

from __future__ import annotations

import pytest
from llm_streams import ANTHROPIC_STREAM, CHAT_STREAM, GEMINI_STREAM, STREAMS, WHOLE, Recorded, event

from harness.gateway.protocols.base import Meter
from harness.gateway.sse import EventSplitter
from harness.gateway.usage import Usage

recorded = pytest.mark.parametrize("name", STREAMS)


def fed(stream: Recorded, *pieces: bytes) -> tuple[Meter, bytes]:
    """The meter after the pieces, and the bytes that came out again."""
    meter, splitter, out = stream.protocol.meter(), EventSplitter(), b""
    events = [found for piece in pieces for found in splitter.feed(piece)]
    for found in [*events, *splitter.rest()]:
        out += found.raw
        if found.value is not None:
            meter.take(found.value)
    return meter, out


@recorded
def test_a_stream_split_at_every_byte_tells_the_same(name: str) -> None:
    stream = STREAMS[name]
    for cut in range(len(stream.stream) + 1):
        meter, out = fed(stream, stream.stream[:cut], stream.stream[cut:])
        assert meter.settled(10_000) == (stream.usage, False), cut
        assert out == stream.stream


@recorded
def test_a_stream_that_comes_byte_by_byte_tells_the_same(name: str) -> None:
    stream = STREAMS[name]
    meter, out = fed(stream, *(bytes([byte]) for byte in stream.stream))
    assert meter.settled(10_000) == (stream.usage, False)
    assert out == stream.stream


@recorded
def test_a_stream_with_other_line_ends_tells_the_same(name: str) -> None:
    stream = STREAMS[name]
    other = stream.stream.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    for cut in range(len(other) + 1):
        meter, out = fed(stream, other[:cut], other[cut:])
        assert meter.settled(0)[0] == stream.usage
        assert out == other


@recorded
def test_a_whole_answer_tells_the_same(name: str) -> None:
    meter = STREAMS[name].protocol.meter()
    meter.take(WHOLE[name])
    assert meter.settled(10_000) == (STREAMS[name].usage, False)


@recorded
def test_a_stream_without_its_last_events_is_estimated_and_never_free(name: str) -> None:
    stream = STREAMS[name]
    for cut in range(len(stream.events[0]), len(stream.stream) // 2):
        usage, is_estimate = fed(stream, stream.stream[:cut])[0].settled(900)
        assert is_estimate
        assert usage.input_tokens >= 50


def test_a_cut_stream_counts_the_text_that_came() -> None:
    text = event({"choices": [{"delta": {"content": "word " * 60}}]})
    usage, is_estimate = fed(CHAT_STREAM, text)[0].settled(900)
    assert is_estimate
    assert usage == Usage(300, 0, 0, 100)


def test_a_cut_message_keeps_what_its_start_told() -> None:
    usage, is_estimate = fed(ANTHROPIC_STREAM, ANTHROPIC_STREAM.events[0], ANTHROPIC_STREAM.events[2])[0].settled(9)
    assert is_estimate
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (127, 100, 20)
    assert usage.output_tokens == 4


def test_what_is_written_to_a_cache_for_an_hour_is_told() -> None:
    meter = ANTHROPIC_STREAM.protocol.meter()
    kept = {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15}
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_creation": kept, "output_tokens": 2}
    meter.take({"type": "message", "usage": usage})
    assert meter.settled(0) == (Usage(21, 0, 20, 2, cache_hour_tokens=15), False)


def test_what_a_compatible_server_writes_to_a_cache_is_told() -> None:
    meter = CHAT_STREAM.protocol.meter()
    details = {"cached_tokens": 4, "cache_write_tokens": 90}
    meter.take({"usage": {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": details}})
    assert meter.settled(0) == (Usage(10, 4, 6, 1), False)


def test_a_cut_gemini_stream_keeps_the_higher_count() -> None:
    usage, is_estimate = fed(GEMINI_STREAM, GEMINI_STREAM.events[0])[0].settled(9)
    assert is_estimate
    assert usage.output_tokens == 21


@pytest.mark.parametrize("number", [-1, True, "12", 1.5, 10**30, None, [3]])
def test_numbers_that_cannot_be_meant_are_left_out(number: object) -> None:
    meter = CHAT_STREAM.protocol.meter()
    meter.take({"choices": [], "usage": {"prompt_tokens": number, "completion_tokens": number}})
    assert meter.settled(30) == (Usage(10), True)


@pytest.mark.parametrize(
    "value", [{"choices": 3}, {"choices": [3]}, {"usage": []}, {"message": "x"}, {"candidates": [1]}]
)
@recorded
def test_answers_of_another_shape_do_no_harm(name: str, value: dict[str, object]) -> None:
    meter = STREAMS[name].protocol.meter()
    meter.take(value)
    assert meter.settled(3)[1]


def test_an_endless_event_is_passed_on_and_not_kept() -> None:
    splitter = EventSplitter(max_event_bytes=1000)
    pieces = [b"data: {", *[b"x" * 700] * 20, b"}\n\n", b'data: {"a": 1}\n\n']
    found = [event for piece in pieces for event in splitter.feed(piece)]
    assert b"".join(event.raw for event in found) == b"".join(pieces)
    assert [event.value for event in found if event.value is not None] == [{"a": 1}]
    assert max(len(event.raw) for event in found) < 2000


@pytest.mark.parametrize("data", [b"[" * 100_000, b"{" * 100_000, b"\xff\xfe", b"NaN", b'{"a": ' + b"9" * 5000 + b"}"])
def test_data_that_is_no_object_is_an_event_without_value(data: bytes) -> None:
    (found,) = EventSplitter().feed(b"data: " + data + b"\n\n")
    assert found.value is None
