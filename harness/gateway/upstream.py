"""One request to a provider: the headers that pass in either direction, bounded retries, and how it can fail."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from harness.errors import LlmRefusal
from harness.gateway.config import Limits
from harness.gateway.protocols.base import Protocol
from harness.gateway.retry import RETRIED, Patience, asked_for_s
from harness.gateway.sse import json_object

MAX_ERROR_BYTES = 256 * 2**10
BACK_HEADERS = ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry")
# Betas that open what the body's check closes, and those that are priced otherwise.
CLOSED_BETAS = re.compile(
    r"oauth-|mcp-|files-api|code-execution|web-fetch|web-search|skills|message-batches|context-1m|fast-"
)
# What an answer may be: of another form its usage could not be read.
ANSWER_FORMS = re.compile(r"(?:(?:application/json|text/event-stream|\*/\*)(?:; *[a-z]+=[\w.-]+)*(?: *, *|$))+")
HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,2000}")
USER_AGENT = "posttrain-harness-gateway"


@dataclass(frozen=True)
class Request:
    """What is sent: to where, with which headers and parameters, and what."""

    protocol: Protocol
    url: str
    headers: Mapping[str, str]
    params: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """The head of an answer. `error` is the whole body where the status is one of an error; else the stream is open."""

    response: httpx.Response
    attempts: int
    error: bytes | None = None

    @property
    def status(self) -> int:
        return self.response.status_code

    def headers(self) -> dict[str, str]:
        """The headers that go to the agent."""
        return {name: self.response.headers[name] for name in BACK_HEADERS if name in self.response.headers}


class UpstreamFailed(LlmRefusal):
    """The provider gave no answer; `was_sent` says whether it may have worked, and be paid, all the same."""

    def __init__(self, status: int, what: str, attempts: int, *, was_sent: bool) -> None:
        super().__init__(status, "api_error", what)
        self.attempts = attempts
        self.was_sent = was_sent


def passed_headers(protocol: Protocol, headers: Iterable[tuple[str, str]], key: str) -> dict[str, str]:
    """The headers of a request to the provider: a few of the agent's, and the real key."""
    passed = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": USER_AGENT}
    for name, value in headers:
        if not HEADER_VALUE.fullmatch(value):
            continue
        if name == "accept":
            if ANSWER_FORMS.fullmatch(value):
                passed[name] = value
        elif name in protocol.headers:
            betas = [beta.strip() for beta in value.split(",")]
            kept = ",".join(beta for beta in betas if beta and not CLOSED_BETAS.search(beta))
            if kept:
                passed[name] = f"{passed[name]},{kept}" if name in passed and name == "anthropic-beta" else kept
    return {**passed, **(protocol.credentials(key) if key else {})}


def client_for(limits: Limits) -> httpx.AsyncClient:
    """A client that takes nothing from the environment and follows no redirect: both could lead the key elsewhere.

    It keeps no cookies either: those of one run would go out with the calls of another.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx.AsyncClient(
        timeout=httpx.Timeout(limits.silence_s, connect=limits.connect_s),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30),
        cookies=no_cookies,
        trust_env=False,
        follow_redirects=False,
        verify=authorities(),
    )


@cache
def authorities() -> ssl.SSLContext:
    """Who may vouch for a provider: the usual authorities, and those that this system trusts besides."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


async def send(client: httpx.AsyncClient, request: Request, limits: Limits) -> Answer:
    """The provider's answer after at most so many attempts; the last refusal where all were refused.

    Raises:
        UpstreamFailed: it cannot be reached, or said nothing in time.
    """
    patience = Patience(limits)
    while True:
        patience.attempts += 1
        wait: float | None
        try:
            answer = await _once(client, request, patience.attempts)
            wait = _retry_after(answer, request.protocol, patience)
            if wait is None:
                return answer
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError, httpx.ReadError) as error:
            # Nothing of an answer has come: the usual fate of a kept connection that the provider has closed.
            wait = patience.wait_s(None)
            if wait is None:
                raise _failed(502, "the provider cannot be reached", error, patience) from None
        except httpx.TimeoutException as error:
            raise _failed(504, "the provider did not answer in time", error, patience) from None
        except httpx.HTTPError as error:
            raise _failed(502, "the provider cannot be reached", error, patience) from None
        await asyncio.sleep(wait)


async def answers(client: httpx.AsyncClient, request: Request) -> bool:
    """Whether the provider answers a request to its end. Raises: HTTPError if not even a refusal comes."""
    async with client.stream(
        "POST", request.url, params=request.params, headers=request.headers, content=request.body
    ) as response:
        async for _ in response.aiter_raw():
            pass
        return response.status_code < 300


async def _once(client: httpx.AsyncClient, request: Request, attempt: int) -> Answer:
    built = client.build_request(
        "POST", request.url, params=request.params, headers=request.headers, content=request.body
    )
    response = await client.send(built, stream=True)
    if response.status_code < 300:
        return Answer(response, attempt)
    try:
        error = b""
        async for piece in response.aiter_bytes():
            error += piece[: MAX_ERROR_BYTES - len(error)]
        return Answer(response, attempt, error)
    finally:
        await response.aclose()


def _retry_after(answer: Answer, protocol: Protocol, patience: Patience) -> float | None:
    if answer.error is None or answer.status not in RETRIED:
        return None
    if protocol.is_quota_gone(answer.status, json_object(answer.error) or {}):
        return None
    return patience.wait_s(asked_for_s(answer.response.headers))


def _failed(status: int, what: str, error: Exception, patience: Patience) -> UpstreamFailed:
    was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return UpstreamFailed(status, what, patience.attempts, was_sent=was_sent)
