"""`python -m harness.gateway.probe`: asks each provider of a configuration for its models, with its key; costs nothing.

Prints one JSON object for each (`ModelList` of harness/domain/llm.py). The key is in none of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from loguru import logger

from harness.domain.llm import ModelList, Provider
from harness.domain.text import shown
from harness.errors import HarnessError
from harness.gateway.config import Upstream, load_config
from harness.gateway.policy import MODEL
from harness.gateway.protocols.base import Protocol
from harness.gateway.redaction import Redactor
from harness.gateway.routes import ANTHROPIC, CHAT, GEMINI
from harness.gateway.sse import json_object
from harness.gateway.upstream import USER_AGENT, authorities
from harness.gateway.usage import part

MAX_BYTES = 8 * 2**20
MAX_MODELS = 5000
MAX_WORDS = 300
CONNECT_S, SILENCE_S, TOTAL_S = 10.0, 20.0, 30.0
PROTOCOLS: Mapping[Provider, Protocol] = {"openai": CHAT, "anthropic": ANTHROPIC, "gemini": GEMINI}
# Where models are listed behind the provider's URL, and what the question needs besides the key.
PATHS: Mapping[Provider, str] = {"openai": "/models", "anthropic": "/v1/models", "gemini": "/v1beta/models"}
QUERIES: Mapping[Provider, Mapping[str, str]] = {"anthropic": {"limit": "1000"}, "gemini": {"pageSize": "1000"}}
HEADERS: Mapping[Provider, Mapping[str, str]] = {"anthropic": {"anthropic-version": "2023-06-01"}}
GEMINI_VERB = "generateContent"


class Unbounded(Exception):
    """An answer that is longer, or takes longer, than a list of models can."""


def main() -> int:
    """Prints what each provider says; 0 whatever that is, an error's exit code where the configuration is unfit."""
    parser = argparse.ArgumentParser(prog="harness.gateway.probe", description=__doc__)
    parser.add_argument("--config", default=Path("/etc/gateway/gateway.yaml"), type=Path)
    parser.add_argument("--model", action="append", default=[], help="looked up by itself where no list has it")
    options = parser.parse_args()
    logger.remove()
    logger.add(sys.stderr, format="{message}", diagnose=False, backtrace=False)
    try:
        for provider, upstream in load_config(options.config).upstreams.items():
            sys.stdout.write(ask(provider, upstream, options.model).model_dump_json() + "\n")
    except HarnessError as error:
        logger.error("{}", error)
        return error.exit_code
    return 0


def ask(provider: Provider, upstream: Upstream, names: Sequence[str] = ()) -> ModelList:
    """What a provider says, and which of `names` it knows besides: lists leave out the short names of dated models.

    Raises:
        PrerequisiteError: its key is not where it should be.
    """
    key = upstream.key().get_secret_value()
    headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": USER_AGENT}
    headers |= {**HEADERS.get(provider, {}), **(PROTOCOLS[provider].credentials(key) if key else {})}
    url = upstream.url.rstrip("/") + PATHS[provider]
    timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
    try:
        # As the gateway itself: nothing from the environment, and no redirect, could lead the key elsewhere.
        with httpx.Client(headers=headers, timeout=timeout, trust_env=False, verify=authorities()) as client:
            found = _understood(provider, *_got(client, url, QUERIES.get(provider)), key)
            if found.status != "ok":
                return found
            more = [name for name in names if name not in found.models and _is_known(client, url, name)]
            return found.model_copy(update={"models": (*found.models, *more)})
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        return ModelList(provider=provider, status="unreachable", error=_words(str(error).encode(), key))
    except (httpx.HTTPError, httpx.InvalidURL, Unbounded) as error:
        words = _words(f"{type(error).__name__}: {error}".encode(), key)
        return ModelList(provider=provider, status="failed", error=words)


def _got(client: httpx.Client, url: str, params: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    with client.stream("GET", url, params=params) as response:
        return response.status_code, _bounded(response)


def _is_known(client: httpx.Client, url: str, name: str) -> bool:
    return is_model_name(name) and _got(client, f"{url}/{name}")[0] == 200


def _bounded(response: httpx.Response) -> bytes:
    deadline, content = time.monotonic() + TOTAL_S, bytearray()
    for piece in response.iter_raw():
        content += piece
        if len(content) > MAX_BYTES or time.monotonic() > deadline:
            raise Unbounded("the answer does not end")
    return bytes(content)


def _understood(provider: Provider, status: int, content: bytes, key: str) -> ModelList:
    message = part(json_object(content), "error").get("message")
    said = f"{status}: {_words(message.encode() if isinstance(message, str) else content, key)}"
    if status in (401, 403) or (status == 400 and b"api key" in content[:2000].lower()):
        return ModelList(provider=provider, status="key_refused", error=said)
    if status in (404, 405, 501):
        return ModelList(provider=provider, status="no_such_route", error=said)
    answer = json_object(content) if status == 200 else None
    if answer is None:
        return ModelList(provider=provider, status="failed", error=said)
    return ModelList(provider=provider, status="ok", models=models_in(answer))


def models_in(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a list of models of any of the providers; what cannot be a name is left out."""
    rows = answer.get("data", answer.get("models"))
    names: dict[str, None] = {}
    for row in rows[:MAX_MODELS] if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        verbs = row.get("supportedGenerationMethods")
        if isinstance(verbs, list) and GEMINI_VERB not in verbs:
            continue
        name = row.get("id", row.get("name"))
        name = name.removeprefix("models/") if isinstance(name, str) else ""
        if is_model_name(name):
            names[name] = None
    return tuple(names)


def is_model_name(text: str) -> bool:
    """Whether `text` can be a model's name, also as the end of a path."""
    return MODEL.fullmatch(text) is not None and ".." not in text


def _words(content: bytes, key: str) -> str:
    return shown(Redactor([key])(content[:20_000]).decode(errors="replace"), MAX_WORDS)


if __name__ == "__main__":
    sys.exit(main())
