"""One question at a time to an OpenAI-compatible chat endpoint; the key goes into a header and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, SecretStr, ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from harness.domain.base import Frozen
from harness.domain.prompts import Message
from harness.domain.text import shown
from harness.errors import PrerequisiteError, ServiceUnavailable, UsageError

TRIES = 3
MAX_REPLY_BYTES = 4 * 2**20
TIMEOUT = httpx.Timeout(600, connect=20)
MAX_WORDS = 300


class ChatReply(Frozen):
    """What the model said, and what it cost in tokens where the endpoint tells."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Said(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Said


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None


@dataclass(frozen=True)
class ChatEndpoint:
    """Where a model is asked. `longest_wait_s`: between two tries, where the endpoint is busy."""

    base_url: str
    model: str
    key: SecretStr | None = None
    longest_wait_s: float = 30.0

    def __post_init__(self) -> None:
        """Raises: UsageError: the URL cannot be one, or the key would cross a network in clear text."""
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password or url.query:
            raise UsageError(
                "the LLM's base URL is no plain http(s) URL", "Give it as https://host/v1; the key is OPENAI_API_KEY."
            )
        if url.scheme == "http" and self.key is not None and not _is_local(url.hostname):
            raise UsageError(f"the key would go to {url.hostname} in clear text", "Use https.")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc

    def ask(self, messages: Sequence[Message]) -> ChatReply:
        """The model's reply.

        Raises:
            PrerequisiteError: the endpoint refuses (key, model, URL).
            ServiceUnavailable: it does not answer, is busy, or answers something else than a completion.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(ServiceUnavailable),
            wait=wait_exponential(min=min(1.0, self.longest_wait_s), max=self.longest_wait_s),
            stop=stop_after_attempt(TRIES),
            reraise=True,
        )
        reply: ChatReply = retrying(self._ask, messages)
        return reply

    def _ask(self, messages: Sequence[Message]) -> ChatReply:
        body = {"model": self.model, "messages": [message.model_dump() for message in messages]}
        headers = {"Authorization": f"Bearer {self.key.get_secret_value()}"} if self.key else {}
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        try:
            with (
                httpx.Client(timeout=TIMEOUT, follow_redirects=False) as client,
                client.stream("POST", url, json=body, headers=headers) as response,
            ):
                content = _bounded(response)
        except httpx.HTTPError as error:
            raise ServiceUnavailable(
                f"the LLM at {self.host} does not answer: {type(error).__name__}",
                "Look whether --llm-base-url is right and can be reached from here, and try again.",
            ) from error
        return self._understood(response.status_code, content)

    def _understood(self, status: int, content: bytes) -> ChatReply:
        words = shown(content.decode(errors="replace"), MAX_WORDS)
        if status == 429 or status >= 500:
            raise ServiceUnavailable(f"the LLM at {self.host} answers with {status}: {words}")
        if status != 200:
            raise PrerequisiteError(
                f"the LLM at {self.host} refuses with {status}: {words}",
                "Check OPENAI_API_KEY, --llm (CHAT_MODEL) and --llm-base-url (OPENAI_API_BASE).",
            )
        try:
            completion = _Completion.model_validate(json.loads(content))
            text = completion.choices[0].message.content
        except (ValidationError, ValueError, IndexError, RecursionError) as error:
            raise ServiceUnavailable(f"the LLM at {self.host} sent no chat completion: {words}") from error
        usage = completion.usage or _Usage()
        return ChatReply(text=text or "", prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)


def _bounded(response: httpx.Response) -> bytes:
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > MAX_REPLY_BYTES:
            raise ServiceUnavailable(f"the LLM sends more than {MAX_REPLY_BYTES} bytes")
    return bytes(content)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
