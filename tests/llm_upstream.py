"""A provider for tests, on loopback: answers in four protocols as recorded, or fails in a way that the model names."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from llm_streams import STREAMS, WHOLE
from served import served_on_port
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

TOGETHER = 64
KEY = "sk-real-provider-key-0123456789abcdef"


class Upstream:
    """A model's name says what happens: `together`, `endless`, `cut`, `hang`, `storm-<status>-<times>`, `quota`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.hits: Counter[str] = Counter()
        self.open_streams = 0
        self.most_streams = 0
        self.url = ""

    def app(self) -> Starlette:
        routes = [
            Route("/v1/chat/completions", self._endpoint("openai-chat"), methods=["POST"]),
            Route("/v1/responses", self._endpoint("openai-responses"), methods=["POST"]),
            Route("/v1/messages", self._endpoint("anthropic"), methods=["POST"]),
            Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
            Route("/v1beta/models/{model}:{verb}", self._endpoint("gemini"), methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def _count(self, request: Request) -> Response:
        await self._note(request)
        return JSONResponse({"input_tokens": 12})

    async def _note(self, request: Request) -> dict[str, Any]:
        raw = await request.body()
        body: dict[str, Any] = json.loads(raw)
        headers = dict(request.headers)
        query = dict(request.query_params)
        self.requests.append({"raw": raw, "body": body, "headers": headers, "query": query})
        return body

    def _endpoint(self, name: str) -> Any:
        async def answer(request: Request) -> Response:
            body = await self._note(request)
            model = str(request.path_params.get("model") or body.get("model"))
            self.hits[model] += 1
            failure = await self._failure(model, request)
            if failure is not None:
                return failure
            if body.get("stream") or request.path_params.get("verb") == "streamGenerateContent":
                return StreamingResponse(self._stream(name, model), media_type="text/event-stream")
            headers = {"x-request-id": "req_1", "set-cookie": "a=b", "x-account": "secret"}
            return JSONResponse(WHOLE[name], headers=headers)

        return answer

    async def _failure(self, model: str, request: Request) -> Response | None:
        kind, *rest = model.split("-")
        if kind == "storm" and self.hits[model] <= int(rest[1]):
            headers = {"retry-after": rest[2]} if len(rest) > 2 else {}
            return JSONResponse({"error": {"message": "later", "type": "x"}}, int(rest[0]), headers)
        if kind == "quota":
            return JSONResponse({"error": {"message": "no money", "code": "insufficient_quota"}}, 429)
        if kind == "long":
            return JSONResponse({**WHOLE["openai-chat"], "padding": "x" * 10_000})
        if kind == "badkey":
            return JSONResponse({"error": {"message": f"bad key {request.headers.get('authorization')}"}}, 401)
        if kind == "echo":
            return JSONResponse({"error": {"message": f"wrong: {request.headers.get('authorization')}"}}, 400)
        if kind == "silent":
            return JSONResponse({"choices": [{"message": {"content": "word " * 100}}]})
        if kind == "hang":
            await asyncio.sleep(30)
        return None

    async def _stream(self, name: str, model: str) -> AsyncIterator[bytes]:
        self.open_streams += 1
        self.most_streams = max(self.most_streams, self.open_streams)
        try:
            if model == "together":
                await self._all_here()
            events = STREAMS[name].events
            for number, piece in enumerate(events):
                if model == "cut" and number == len(events) - 2:
                    raise ConnectionResetError("cut on purpose")
                yield piece
                if model == "slow-stream":
                    await asyncio.sleep(0.3)
                if model == "endless":
                    for _ in range(300):
                        yield piece
                        await asyncio.sleep(0.1)
        finally:
            self.open_streams -= 1

    async def _all_here(self) -> None:
        """Returns when `TOGETHER` streams are open at a time; gives up after a while."""
        for _ in range(1500):
            if self.most_streams >= TOGETHER:
                return
            await asyncio.sleep(0.01)


@contextmanager
def upstream() -> Iterator[Upstream]:
    """A provider that answers on a free port of loopback."""
    provider = Upstream()
    with served_on_port(provider.app()) as port:
        provider.url = f"http://127.0.0.1:{port}"
        yield provider
