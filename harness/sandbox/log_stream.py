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
_PIECE = 16 * 1024
_RETRY_S = 0.5
_ENGINE_BACK_S = 60.0


class LogPosition:
    """How many pieces of a log have been read; a long line comes in several, of 16 kB each.

    After a break the log is read from its start again and so many are skipped. Docker can start at a time instead, but
    its stamps are not sorted: all pieces of a line carry the first one's, with the other stream's between them. Docker
    keeps more of a log than the cap, so that its start is there as long as anybody reads.
    """

    def __init__(self) -> None:
        self._count = 0
        self._to_skip = 0

    def rewind(self) -> None:
        """Before the log is read again."""
        self._to_skip = self._count

    def take(self, piece: bytes) -> bytes:
        """The piece if it is new, else nothing."""
        if self._to_skip:
            self._to_skip -= 1
            return b""
        self._count += 1
        return piece


class LogStream:
    """Follows a container's output into `path` until the container ends, `cap_mb` is full, or it is stopped.

    It begins anew with an empty file: Docker keeps at least as much of the log as the cap.
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
        """Waits for the rest of an ended container's output; False if it had to be given up (the container runs)."""
        self._thread.join(timeout_s)
        self._stopping.set()
        return not self._thread.is_alive()

    def _follow(self) -> None:
        gone_since: float | None = None
        with self._path.open("wb") as file:
            while not self._stopping.is_set() and not self.is_capped:
                try:
                    client = connect()
                    try:
                        self._read(client, file)
                        gone_since = None
                        if not _is_running(client, self._container_id):
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

    def _read(self, client: DockerClient, file: BinaryIO) -> None:
        """Copies until the stream ends, which it also does when the daemon goes: the caller looks which it was."""
        self._position.rewind()
        pieces = client.api.logs(self._container_id, stream=True, follow=True)
        with _closing(pieces):
            self._copy(pieces, file)

    def _copy(self, pieces: Iterator[bytes], file: BinaryIO) -> None:
        for piece in pieces:
            text = _with_newline(self._position.take(piece))
            if self._written + len(text) > self._cap:
                file.write(text[: self._cap - self._written])
                file.write(
                    b"\n[harness] the log reached its limit of %d MB; the rest is not kept\n" % (self._cap // _MEGABYTE)
                )
                self.is_capped = True
                return
            file.write(text)
            file.flush()
            self._written += len(text)


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
