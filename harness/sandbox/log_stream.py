"""Streams a container's output into a capped file, in a thread, across restarts of the daemon."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.types.daemon import CancellableStream
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from harness.errors import HarnessError
from harness.sandbox.engine import connect

_MEGABYTE = 1_000_000
_CAPPED = b"\n[harness] the log reached its limit of %d MB; the rest is not kept\n"
_LOST = b"\n[harness] the output came faster than it could be read; the rest is not kept\n"
_PIECE = 16 * 1024
_RETRY_S = 0.5
_ENGINE_BACK_S = 60.0
_STOP_TRIES = 6


class Rotated(Exception):
    """The log does not begin where it began: Docker has thrown its start away."""


class LogPosition:
    """Which pieces of a log have been read, each with its stamp in front; a long line comes in several, of 16 kB each.

    After a break the log is read from its start again and so many are skipped. Docker can start at a time instead, but
    its stamps are not sorted: all pieces of a line carry the first one's, with the other stream's between them. Docker
    keeps at least as much of a log as the cap, so that its start is there, unless a flood comes faster than it is read.
    """

    def __init__(self) -> None:
        self.count = 0
        self._to_skip = 0
        self._first = self._last = b""
        self._is_at_start = True

    def rewind(self) -> None:
        """Before the log is read again."""
        self._to_skip, self._is_at_start = self.count, True

    def take(self, piece: bytes) -> bytes:
        """The piece's text if it is new, else nothing.

        Raises:
            Rotated: the first piece after a `rewind` is not the first one ever.
        """
        if self._is_at_start:
            if self._first not in (b"", piece):
                raise Rotated
            self._first, self._is_at_start = piece, False
        if self._to_skip:
            self._to_skip -= 1
            return b""
        self.count += 1
        self._last = piece
        return piece.partition(b" ")[2]

    def is_at(self, last_piece: bytes) -> bool:
        """Whether the log's last piece is the last one that was read."""
        return last_piece == self._last


class LogStream:
    """Follows a container's output into `path` until the container ends, `cap_mb` is full, or it is stopped.

    It begins anew with an empty file: Docker keeps at least as much of the log as the cap. What does not get into the
    file is told in its last line, and by `is_capped`.
    """

    def __init__(self, container_id: str, path: Path, cap_mb: int) -> None:
        self._container_id = container_id
        self._path = path
        self._cap = cap_mb * _MEGABYTE
        self._position = LogPosition()
        self._written = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"log-{container_id[:12]}", daemon=True)
        self.is_capped = False

    def start(self) -> None:
        """Begins to follow; the file is there when it returns."""
        self._path.touch()
        self._thread.start()

    def stop(self, timeout_s: float = 10) -> bool:
        """Waits for the rest of an ended container's output, as long as some comes.

        Returns:
            False if it had to be given up: the container runs, or Docker does not answer.
        """
        for _ in range(_STOP_TRIES):
            before = self._position.count
            self._thread.join(timeout_s)
            if not self._thread.is_alive() or self._position.count == before:
                break
        is_done = not self._thread.is_alive()
        self._stopping.set()
        return is_done

    def _follow(self) -> None:
        gone_since: float | None = None
        with self._path.open("wb") as file:
            while not self._stopping.is_set() and not self.is_capped:
                try:
                    client = connect()
                    try:
                        self._read(client, file, is_live=True)
                        gone_since = None
                        if not _is_running(client, self._container_id):
                            self._complete(client, file)
                            return
                    finally:
                        client.close()
                except APIError as error:
                    if error.response is not None and error.response.status_code == 404:
                        return
                except (HarnessError, DockerException, RequestException, HTTPError, OSError):
                    gone_since = gone_since or time.monotonic()
                    if time.monotonic() - gone_since > _ENGINE_BACK_S:
                        return
                self._stopping.wait(_RETRY_S)

    def _complete(self, client: DockerClient, file: BinaryIO) -> None:
        """Reads what the live stream left out: with a rotated log it ends at the end of a file that is not the last."""
        for _ in range(2):
            if self.is_capped or self._has_all(client):
                return
            self._read(client, file, is_live=False)
        if not self.is_capped and not self._has_all(client):
            self._end(file, _LOST)

    def _has_all(self, client: DockerClient) -> bool:
        pieces = client.api.logs(self._container_id, stream=True, timestamps=True, tail=1)
        with _closing(pieces):
            last = list(pieces)
        return not last or self._position.is_at(last[-1])

    def _read(self, client: DockerClient, file: BinaryIO, *, is_live: bool) -> None:
        """Copies until the stream ends, which it also does when the daemon goes: the caller looks which it was."""
        self._position.rewind()
        pieces = client.api.logs(self._container_id, stream=True, follow=is_live, timestamps=True)
        with _closing(pieces):
            try:
                self._copy(pieces, file)
            except Rotated:
                self._end(file, _LOST)

    def _copy(self, pieces: Iterator[bytes], file: BinaryIO) -> None:
        for piece in pieces:
            text = _with_newline(self._position.take(piece))
            if self._stopping.is_set():
                self._end(file, _LOST)
                return
            if self._written + len(text) > self._cap:
                file.write(text[: self._cap - self._written])
                self._end(file, _CAPPED % (self._cap // _MEGABYTE))
                return
            file.write(text)
            file.flush()
            self._written += len(text)

    def _end(self, file: BinaryIO, words: bytes) -> None:
        file.write(words)
        file.flush()
        self.is_capped = True


def _with_newline(text: bytes) -> bytes:
    """A piece that is shorter than a whole one ends its line; Docker's `local` driver drops a long line's newline."""
    return text + b"\n" if text and len(text) < _PIECE and not text.endswith(b"\n") else text


@contextmanager
def _closing(pieces: CancellableStream[bytes]) -> Iterator[None]:
    """Closes the stream's connection also when it is left in the middle."""
    try:
        yield
    finally:
        with suppress(OSError, AttributeError):  # The SDK finds no socket in a stream that has ended by itself.
            pieces.close()
        # It shuts the socket down and leaves the response, which would hold its descriptor.
        stream: Any = pieces
        stream._response.close()


def _is_running(client: DockerClient, container_id: str) -> bool:
    return bool(client.api.inspect_container(container_id)["State"]["Running"])
