"""The agents' side: an ASGI application that lets a run's calls through to the providers; what comes is hostile."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from loguru import logger

from harness.domain.llm import Answering, Provider
from harness.errors import LlmRefusal
from harness.gateway.again import Again
from harness.gateway.bodies import Receive, Room, read_body, unpacked
from harness.gateway.caller import Scope, caller_of, headers_of, parameters_of
from harness.gateway.capture import Recorder
from harness.gateway.config import Limits, Upstream
from harness.gateway.cutting import cut
from harness.gateway.prepared import Prepared, prepare
from harness.gateway.prices import PriceTable
from harness.gateway.protocols.base import Body, Protocol
from harness.gateway.redaction import Redactor
from harness.gateway.registry import OpenRun, Registry
from harness.gateway.relay import Relay, Send
from harness.gateway.routes import MODEL_LISTS, Route, protocol_for_errors, route_of
from harness.gateway.settlement import Account, Tape, note_refusal
from harness.gateway.upstream import Request, passed_headers

MAX_USER_AGENT = 120
# No digits in it: some agents take those for a status to retry on.
NO_MORE_CALLS = "this run has had all the calls that it may have"
# Longer ones are read in a thread; one at a time, for what they become is many times as large.
LARGE_BYTES = 2**17


class Provided:
    """What all calls share: where the providers are, their keys, prices, limits, and what writes things down."""

    def __init__(
        self, upstreams: Mapping[Provider, Upstream], prices: PriceTable, limits: Limits, registry: Registry
    ) -> None:
        self.urls = {str(name): upstream.url.rstrip("/") for name, upstream in upstreams.items()}
        self.keys = {str(name): upstream.key().get_secret_value() for name, upstream in upstreams.items()}
        self.prices = prices
        self.limits = limits
        self.registry = registry
        self.redactor = Redactor(self.keys.values())
        self.recorder = Recorder(self.redactor, limits.exchanges_bytes)

    def url_of(self, route: Route) -> str:
        """Where a call goes.

        Raises:
            LlmRefusal: no such provider is configured.
        """
        base = self.urls.get(route.protocol.provider)
        if base is None:
            raise LlmRefusal(404, "not_found_error", "this gateway has no such provider")
        return base + (route.path.removeprefix("/v1") if route.protocol.provider == "openai" else route.path)


@dataclass(frozen=True)
class _Caller:
    run: OpenRun
    token: str
    scope: Scope


class AgentApp:
    """The application; `close_run` ends the open calls of a run."""

    def __init__(self, provided: Provided, client: httpx.AsyncClient) -> None:
        self._provided = provided
        self._client = client
        self._open: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._rooms: defaultdict[str, Room] = defaultdict(lambda: Room(provided.limits.run_bodies_bytes))
        self._answers: defaultdict[str, Room] = defaultdict(lambda: Room(provided.limits.run_answers_bytes))
        self._reads_large = asyncio.Lock()
        self._again = Again()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        protocol = protocol_for_errors(path)
        try:
            if method in ("GET", "HEAD"):
                await self._look(path, scope, send)
                return
            route = route_of(path) if method == "POST" else None
            run, token = caller_of(scope, self._provided.registry)
            if route is None:
                refusal = LlmRefusal(404, "not_found_error", "no such path for agents")
                note_refusal(run, path, refusal.status, str(refusal), self._provided.limits.refusals)
                raise refusal
            await self._call(route, _Caller(run, token, scope), receive, send)
        except LlmRefusal as refusal:
            await _refuse(protocol, refusal, send)

    async def close_run(self, run_id: str) -> None:
        """Cuts the open calls of a run; each has been settled for what it has used when this returns."""
        tasks = self._open.pop(run_id, set())
        self._rooms.pop(run_id, None)
        self._answers.pop(run_id, None)
        await cut(tasks)
        self._again.forget(run_id)

    async def ask_again(self, run_id: str) -> Answering:
        """Whether the provider answers what it has answered this run before."""
        return await self._again.ask(self._client, run_id)

    async def _look(self, path: str, scope: Scope, send: Send) -> None:
        if path == "/":
            await _reply(200, {"status": "ok"}, send)
            return
        run, _ = caller_of(scope, self._provided.registry)
        if path not in MODEL_LISTS:
            raise LlmRefusal(404, "not_found_error", "no such path for agents")
        names = run.spec.models or tuple(self._provided.prices.models)
        if path.startswith("/v1beta/"):
            await _reply(200, {"models": [{"name": f"models/{name}", "displayName": name} for name in names]}, send)
            return
        listed = [
            {"id": n, "object": "model", "type": "model", "display_name": n, "owned_by": "gateway"} for n in names
        ]
        await _reply(200, {"object": "list", "data": listed, "has_more": False}, send)

    async def _call(self, route: Route, caller: _Caller, receive: Receive, send: Send) -> None:
        limits, run = self._provided.limits, caller.run
        with self._rooms[run.spec.run_id].share() as take:
            try:
                headers = dict(headers_of(caller.scope))
                raw = await read_body(receive, take, limits.body_bytes, limits.body_s)
                body = unpacked(raw, headers.get("content-encoding", "").lower(), limits.body_bytes)
                take(max(0, len(body) - len(raw)))
                prepared = await self._prepared(route, body, run)
                take(max(0, len(prepared.body) - len(body)))
                request = self._request(prepared, caller.scope)
                del raw, body
                if not run.journal.has_room(limits.rows):
                    raise LlmRefusal(402, "budget_exceeded", NO_MORE_CALLS)
                await run.ledger.admit(prepared.hold, limits.turn_s)
            except LlmRefusal as refusal:
                note_refusal(run, route.path, refusal.status, str(refusal), limits.refusals)
                raise
            agent = headers.get("user-agent", "")[:MAX_USER_AGENT]
            tape = Tape(limits.exchange_bytes)
            account = Account(run, prepared, caller.token, agent, tape, run.journal.number())
            await self._carry(account, request, receive, send)

    async def _prepared(self, route: Route, body: bytes, run: OpenRun) -> Prepared:
        if len(body) <= LARGE_BYTES:
            return prepare(route, body, run, self._provided.prices)
        # It takes long; meanwhile the calls of others go on.
        async with self._reads_large:
            return await asyncio.to_thread(prepare, route, body, run, self._provided.prices)

    async def _carry(self, account: Account, request: Request, receive: Receive, send: Send) -> None:
        provided, run_id = self._provided, account.run.spec.run_id
        task = asyncio.current_task()
        assert task is not None
        self._open[run_id].add(task)
        try:
            account.begin()
            relay = Relay(account, provided.registry, provided.limits, provided.redactor, self._answers[run_id])
            await relay.run(self._client, request, receive, send)
            if account.is_answered:
                self._again.note(run_id, request, account.elapsed_s())
        except asyncio.CancelledError:
            # Its run was closed; the server closes the connection.
            logger.info("call {} of {} was cut off", account.number, run_id)
        finally:
            self._open[run_id].discard(task)
            account.settle(provided.registry, provided.recorder, provided.limits.exchange_bytes)

    def _request(self, prepared: Prepared, scope: Scope) -> Request:
        protocol, parameters = prepared.route.protocol, parameters_of(scope)
        # Gemini answers in other forms too (`alt=proto`): what they tell of usage would not be read.
        form = parameters.get("alt", "json")
        if form != ("sse" if prepared.route.is_stream else "json"):
            raise LlmRefusal(400, "invalid_request_error", "answers are JSON, and streams server-sent events: ?alt=sse")
        return Request(
            protocol,
            self._provided.url_of(prepared.route),
            passed_headers(protocol, headers_of(scope), self._provided.keys[protocol.provider]),
            {name: value for name, value in parameters.items() if name in protocol.query},
            prepared.body,
        )


async def _refuse(protocol: Protocol, refusal: LlmRefusal, send: Send) -> None:
    """The refusal in the provider's form; one of the budget in the form that ends agents."""
    if refusal.status == 402:
        error = {"type": refusal.kind, "code": refusal.kind, "message": refusal.what}
        value: Body = {"type": "error", "error": error}
    else:
        value = protocol.error(refusal.status, refusal.kind, refusal.what)
    await _reply(refusal.status, value, send, refusal.retry_after_s)


async def _reply(status: int, value: Any, send: Send, retry_after_s: float | None = None) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if retry_after_s is not None:
        headers.append((b"retry-after", str(int(retry_after_s)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
