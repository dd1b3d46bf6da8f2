"""The body of a request that may be hostile: bounded in time, in size and in what it unpacks to, and strict JSON."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import zstandard

from harness.checkpoint.strict_json import parse_json
from harness.errors import LlmRefusal

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
# What zstd may ask for while it unpacks, whatever a frame says; its own default level needs 2 MiB.
MAX_WINDOW_BYTES = 8 * 2**20
GZIP_BITS = 31
# Each can become an object of a few hundred bytes; text of several megabytes has fewer.
MAX_MARKS = 500_000


class Room:
    """How many bytes of requests may be held at a time, all calls of a run together."""

    def __init__(self, size: int) -> None:
        self._free = size

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """A function that takes so many bytes more; all of them are given back at the end."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._free:
                raise LlmRefusal(503, "overloaded_error", "too much of this run is under way", retry_after_s=2)
            self._free -= size
            taken += size

        try:
            yield take
        finally:
            self._free += taken


async def read_body(receive: Receive, take: Callable[[int], None], max_bytes: int, timeout_s: float) -> bytes:
    """The body as it was sent.

    Raises:
        LlmRefusal: larger than allowed, or not whole in time.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise LlmRefusal(400, "invalid_request_error", "the request broke off")
                piece = message.get("body", b"")
                take(len(piece))
                body += piece
                if len(body) > max_bytes:
                    raise too_large()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise LlmRefusal(408, "invalid_request_error", "the request did not come whole in time") from None


def too_large() -> LlmRefusal:
    return LlmRefusal(413, "request_too_large", "the request is too large")


def unpacked(raw: bytes, encoding: str, max_bytes: int) -> bytes:
    """What a body holds; never more than `max_bytes` of it are made.

    Raises:
        LlmRefusal: an encoding that is not known, broken, or a body that becomes too large.
    """
    try:
        if encoding in ("", "identity"):
            return raw
        if encoding == "gzip":
            return _gunzip(raw, max_bytes)
        if encoding == "zstd":
            return _unzstd(raw, max_bytes)
    except (zlib.error, zstandard.ZstdError, EOFError):
        raise LlmRefusal(400, "invalid_request_error", f"the body is not sound {encoding}") from None
    raise LlmRefusal(415, "invalid_request_error", "this content-encoding is not known: gzip and zstd are")


def _gunzip(raw: bytes, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(GZIP_BITS)
    body = unpacker.decompress(raw, max_bytes + 1)
    if len(body) > max_bytes:
        raise too_large()
    if not unpacker.eof:
        raise EOFError
    return body


def _unzstd(raw: bytes, max_bytes: int) -> bytes:
    # Not `decompressobj`: it unpacks all that it is given, a thousand times as much as that.
    with zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).stream_reader(raw) as unpacker:
        body = bytearray()
        while len(body) <= max_bytes and (piece := unpacker.read(max_bytes + 1 - len(body))):
            body += piece
    if len(body) > max_bytes:
        raise too_large()
    return bytes(body)


def parsed(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body. Strict: what two readers could understand differently is refused.

    Raises:
        LlmRefusal: it is none.
    """
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MAX_MARKS:
        raise too_large()
    try:
        value = parse_json(raw)
    except ValueError as error:
        raise LlmRefusal(400, "invalid_request_error", f"the body cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise LlmRefusal(400, "invalid_request_error", "the body is not a JSON object")
    return value
