"""Every exchange with a provider as a file of its run: redacted, compressed, written beside the calls, capped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from harness.gateway.redaction import Redactor

FOLDER_NAME = "exchanges"
LEVEL = 6
# What may wait for the one thread that compresses; beyond that an exchange is left out rather than the memory filled.
MAX_PENDING_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Message:
    """One direction of an exchange: headers that were passed on, and the body, cut off at the cap."""

    head: Mapping[str, object]
    body: bytes
    is_cut: bool = False


@dataclass(frozen=True)
class Exchange:
    """A request as it went to the provider and its answer as it went to the agent; `token` is what must not be kept."""

    number: int
    request: Message
    answer: Message
    token: str = ""


class Recorder:
    """Writes the exchanges of all runs, on one thread."""

    def __init__(self, redactor: Redactor, max_bytes_per_run: int) -> None:
        self._redactor = redactor
        self._max_bytes = max_bytes_per_run
        self._pending = 0
        self._sizes: dict[Path, int] = {}
        self._thread = ThreadPoolExecutor(1, "exchanges")

    def keep(self, folder: Path, exchange: Exchange) -> str | None:
        """The name of the file that is going to be written; `None` where there is no room for it."""
        size = len(exchange.request.body) + len(exchange.answer.body)
        if self._pending + size > MAX_PENDING_BYTES or self._size_of(folder) >= self._max_bytes:
            return None
        self._pending += size
        name = f"{exchange.number:06d}.json.gz"
        future = self._thread.submit(self._write, folder / FOLDER_NAME / name, exchange)
        future.add_done_callback(lambda done: self._written(folder, size, done))
        return name

    def close(self) -> None:
        """Returns when everything is written."""
        self._thread.shutdown(wait=True)

    def _written(self, folder: Path, size: int, done: Future[int]) -> None:
        self._pending -= size
        error = done.exception()
        if error is not None:
            logger.error("an exchange of {} was not kept: {}", folder.name, type(error).__name__)
            return
        self._sizes[folder] = self._size_of(folder) + done.result()

    def _size_of(self, folder: Path) -> int:
        if folder not in self._sizes:
            kept = (folder / FOLDER_NAME).glob("*.gz")
            self._sizes[folder] = sum(path.stat().st_size for path in kept)
        return self._sizes[folder]

    def _write(self, path: Path, exchange: Exchange) -> int:
        sides = {"request": exchange.request, "answer": exchange.answer}
        kept = {side: self._kept(message, exchange.token) for side, message in sides.items()}
        packed = gzip.compress(json.dumps({"number": exchange.number, **kept}).encode(), LEVEL)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed)
        return len(packed)

    def _kept(self, message: Message, token: str) -> dict[str, object]:
        # Before it becomes JSON in JSON, whose escapes could hide a secret from the search.
        body = self._redactor(message.body, token).decode("utf-8", "replace")
        head = self._redactor(json.dumps(dict(message.head)).encode(), token)
        return {**json.loads(head), "is_cut": message.is_cut, "body": body}
