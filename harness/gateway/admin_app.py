"""The harness' side, on a unix socket only: open and close runs, read usage, calls, connections and events."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.domain.llm import Answering, LlmRun
from harness.errors import HarnessError, RequestError
from harness.gateway.registry import Registry

MAX_BYTES = 2**20
MAX_ROWS = 5000
EndCalls = Callable[[str], Awaitable[None]]
AskAgain = Callable[[str], Awaitable[Answering]]


class _Routes:
    """The routes of one registry; `end_calls` cuts what a run has open, `ask_again` asks its provider."""

    def __init__(self, registry: Registry, end_calls: EndCalls, ask_again: AskAgain) -> None:
        self._registry = registry
        self._end_calls = end_calls
        self._ask_again = ask_again

    async def open_run(self, request: Request) -> Response:
        body = await request.body()
        if len(body) > MAX_BYTES:
            raise RequestError("the request is too large")
        try:
            spec = LlmRun.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise RequestError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
        return _one(self._registry.open(spec))

    async def close_run(self, request: Request) -> Response:
        run_id = request.path_params["run_id"]
        self._registry.close(run_id)
        await self._end_calls(run_id)
        return _one(await to_thread(self._registry.usage, run_id))

    async def ask_again(self, request: Request) -> Response:
        return _one(await self._ask_again(request.path_params["run_id"]))

    async def usage(self, request: Request) -> Response:
        # Of a closed run it is added up from the file, as are the calls: not on the loop that carries streams.
        return _one(await to_thread(self._registry.usage, request.path_params["run_id"]))

    async def calls(self, request: Request) -> Response:
        run_id, skip = request.path_params["run_id"], _number(request, "skip")
        return _many(await to_thread(self._registry.calls, run_id, skip, MAX_ROWS))

    async def connections(self, request: Request) -> Response:
        run_id, skip = request.path_params["run_id"], _number(request, "skip")
        return _many(await to_thread(self._registry.connections, run_id, skip, MAX_ROWS))

    async def events(self, request: Request) -> Response:
        return _many(self._registry.events(_number(request, "after")))


def create_admin_app(registry: Registry, end_calls: EndCalls, ask_again: AskAgain) -> Starlette:
    """The application; `end_calls` cuts what a run that is closed has open: calls, connections."""
    own = _Routes(registry, end_calls, ask_again)
    routes = [
        Route("/health", _health, methods=["GET"]),
        Route("/runs", own.open_run, methods=["POST"]),
        Route("/runs/{run_id}/close", own.close_run, methods=["POST"]),
        Route("/runs/{run_id}/ask-again", own.ask_again, methods=["POST"]),
        Route("/runs/{run_id}/usage", own.usage, methods=["GET"]),
        Route("/runs/{run_id}/calls", own.calls, methods=["GET"]),
        Route("/runs/{run_id}/connections", own.connections, methods=["GET"]),
        Route("/events", own.events, methods=["GET"]),
    ]
    handler: Callable[[Request, Any], Awaitable[Response]] = _on_error
    return Starlette(routes=routes, exception_handlers={HarnessError: handler})


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _on_error(_request: Request, error: Any) -> Response:
    status = error.status if isinstance(error, RequestError) else 500
    return JSONResponse({"detail": str(error)}, status)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not text.isdecimal() or len(text) > 12:
        raise RequestError(f"{name} must be a whole number")
    return int(text)


def _one(value: BaseModel) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def _many(values: Sequence[BaseModel]) -> Response:
    return JSONResponse([value.model_dump(mode="json") for value in values])
