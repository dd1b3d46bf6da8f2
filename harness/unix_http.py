"""One JSON request over HTTP on a unix socket to a service that is half trusted: deadline and size cap."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness.errors import ServiceUnavailable
from harness.unix_socket import reachable

CONNECT_TIMEOUT_S = 10.0
CHUNK = 2**18
MAX_REPLY_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Reply:
    """Status and whole body of an HTTP reply."""

    status: int
    body: bytes


@dataclass(frozen=True)
class UnixHttp:
    """Requests to the service on `socket`; every call opens a connection of its own, so restarts do not matter."""

    socket: Path
    service: str
    max_reply_bytes: int = MAX_REPLY_BYTES

    def request(self, method: str, path: str, timeout_s: float, message: BaseModel | None = None) -> Reply:
        """The reply to one request, whatever its status.

        Raises:
            ServiceUnavailable: no connection, not done after `timeout_s`, broken off, or larger than the cap.
        """
        content = None if message is None else encode(message.model_dump(mode="json"))
        headers = {"Accept": "application/json"} | ({} if content is None else {"Content-Type": "application/json"})
        try:
            with reachable(self.socket) as address, _Connection(address, timeout_s) as connection:
                connection.request(method, path, content, headers)
                with connection.getresponse() as response:
                    return Reply(response.status, self._read(response, connection))
        except TimeoutError as error:
            raise self._unavailable(f"did not answer {path} within {timeout_s:g} s") from error
        except (HTTPException, OSError) as error:
            raise self._unavailable(f"{path}: {error or type(error).__name__}") from error

    def _read(self, response: HTTPResponse, connection: _Connection) -> bytes:
        # Not `response.read`: it takes a body that is shorter than announced for a whole one.
        body, length = bytearray(), response.length
        while length is None or len(body) < length:
            connection.limit()
            chunk = response.read1(CHUNK)
            if not chunk and length is None:
                break
            if not chunk:
                raise self._unavailable(f"broke off its reply after {len(body)} of {length} bytes")
            body += chunk
            if len(body) > self.max_reply_bytes:
                raise self._unavailable(f"sent more than {self.max_reply_bytes} bytes")
        return bytes(body)

    def _unavailable(self, why: str) -> ServiceUnavailable:
        return ServiceUnavailable(
            f"the {self.service} service {why}",
            "See the log of its container; of one that has gone, services.log in the run's folder.",
        )


def encode(value: Any) -> bytes:
    """`value` as UTF-8 JSON; lone surrogates, which UTF-8 cannot hold, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


class _Connection(HTTPConnection):
    """One connection to a unix socket, all of it within `timeout_s`."""

    def __init__(self, address: str, timeout_s: float) -> None:
        super().__init__("service", timeout=timeout_s)
        self._address = address
        self._deadline = time.monotonic() + timeout_s

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(min(self._remaining_s(), CONNECT_TIMEOUT_S))
        self.sock.connect(self._address)
        self.limit()

    def limit(self) -> None:
        """The next wait on the socket ends at the deadline.

        Raises:
            TimeoutError: it has passed.
        """
        if self.sock is not None:
            self.sock.settimeout(self._remaining_s())

    def _remaining_s(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining
