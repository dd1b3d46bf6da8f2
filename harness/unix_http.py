"""One JSON request over HTTP on a unix socket to a service that is half trusted: deadline and size cap."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel

from harness.errors import ServiceUnavailable
from harness.unix_socket import reachable

CONNECT_TIMEOUT_S = 10.0
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
        deadline = time.monotonic() + timeout_s
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        content = None if message is None else encode(message.model_dump(mode="json"))
        headers = {} if content is None else {"Content-Type": "application/json"}
        try:
            with reachable(self.socket) as address:
                _knock(address, min(timeout_s, CONNECT_TIMEOUT_S))
                with (
                    _client(address, timeout) as client,
                    client.stream(method, path, content=content, headers=headers) as response,
                ):
                    return Reply(response.status_code, self._read(response, deadline))
        except httpx.TimeoutException as error:
            raise self._unavailable(f"did not answer {path} within {timeout_s:g} s") from error
        except (httpx.HTTPError, OSError) as error:
            raise self._unavailable(f"{path}: {error or type(error).__name__}") from error

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > self.max_reply_bytes:
                raise self._unavailable(f"sent more than {self.max_reply_bytes} bytes")
            if time.monotonic() > deadline:
                raise self._unavailable("did not finish its reply in time")
        return bytes(body)

    def _unavailable(self, why: str) -> ServiceUnavailable:
        return ServiceUnavailable(f"the {self.service} service {why}", f"See the log of the {self.service} container.")


def encode(value: Any) -> bytes:
    """`value` as UTF-8 JSON; lone surrogates, which UTF-8 cannot hold, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _knock(address: str, timeout_s: float) -> None:
    # httpcore leaks its socket where nobody listens, so that is found out first (test_no_socket_is_unavailable).
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout_s)
        probe.connect(address)


def _client(address: str, timeout: httpx.Timeout) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=address, verify=False)
    return httpx.Client(transport=transport, base_url="http://service", timeout=timeout, trust_env=False)
