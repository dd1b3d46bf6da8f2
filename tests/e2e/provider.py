"""An LLM for end-to-end tests: plays a script for each URL `/s/<name>/v1`, one step a request, the last one for ever.

It runs in the tests' own process and listens on all addresses, since the gateways that call it are in containers.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from served import served_on_port
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from harness.domain.base import Frozen

MODEL = "scripted"


class Step(Frozen):
    """What one request gets: `orders` for the agent, or a failure (`status`, a cut, a silence of `hang_s`)."""

    orders: tuple[dict[str, Any], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 10
    status: int = 200
    code: str = ""
    is_cut: bool = False
    hang_s: float = 0
    # Requests no larger than the first one are answered as that was: what fails is what the agent has made of them.
    is_for_larger: bool = False


def say(*orders: dict[str, Any], **more: Any) -> Step:
    return Step(orders=orders, **more)


class Provider:
    """`asked` counts the requests of each script, `largest` is the longest of each in bytes."""

    def __init__(self, scripts: Mapping[str, Sequence[Step]]) -> None:
        self._scripts = scripts
        self._port = 0
        self.asked: Counter[str] = Counter()
        self.largest: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def url(self, name: str) -> str:
        return f"http://localhost:{self._port}/s/{name}/v1"

    def app(self) -> Starlette:
        routes = [
            Route("/s/{name}/v1/models", self._models, methods=["GET"]),
            Route("/s/{name}/v1/chat/completions", self._answer, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """While the block runs it answers, on a free port."""
        with served_on_port(self.app(), "0.0.0.0") as self._port:
            yield

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def _answer(self, request: Request) -> Response:
        name, body = str(request.path_params["name"]), await request.body()
        script = self._scripts[name]
        step = script[min(self.asked[name], len(script) - 1)]
        if step.is_for_larger and len(body) <= self._first[name]:
            step = script[0]
        self._first.setdefault(name, len(body))
        self.asked[name] += 1
        self.largest[name] = max(self.largest[name], len(body))
        if step.hang_s:
            await asyncio.sleep(step.hang_s)
        if step.status != 200:
            return JSONResponse({"error": {"message": "no", "type": "x", "code": step.code or None}}, step.status)
        return StreamingResponse(_stream(step), media_type="text/event-stream")


async def _stream(step: Step) -> AsyncIterator[bytes]:
    text = json.dumps(step.orders)
    half = len(text) // 2
    yield _event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text[:half]}}]})
    if step.is_cut:
        raise ConnectionResetError("cut on purpose")
    yield _event({"choices": [{"index": 0, "delta": {"content": text[half:]}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": step.input_tokens, "completion_tokens": step.output_tokens}
    yield _event({"choices": [], "usage": {**usage, "total_tokens": sum(usage.values())}})
    yield b"data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> bytes:
    known = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return f"data: {json.dumps({**known, **value})}\n\n".encode()
