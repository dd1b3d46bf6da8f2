"""One admitted call between its agent and a provider: bytes pass as they come, usage is read on the side.

However it ends (whole, cut by the provider, left by the agent, out of time, its run or the gateway closed) it is
settled exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx
from loguru import logger

from harness.domain.llm import KEY_REFUSED, QUOTA_GONE
from harness.errors import LlmRefusal
from harness.gateway.bodies import Receive, Room
from harness.gateway.config import Limits
from harness.gateway.redaction import Redactor
from harness.gateway.registry import Registry
from harness.gateway.settlement import Account
from harness.gateway.sse import Event, EventSplitter, json_object
from harness.gateway.upstream import Answer, Request, UpstreamFailed, send
from harness.gateway.usage import Usage

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# The provider's own trouble; other refusals are of what an agent has sent.
PROVIDERS_OWN = (429, 500, 502, 503, 504, 529)
# The least that clients wait for the head of a stream before they give up.
SILENT_S = 60.0
TOO_LARGE = "the answer is larger than this gateway passes on: stream it"
# Tokens that models which think unseen write in a second.
HIDDEN_PER_S = 100
STOPPED = "the provider gives this run no more answers"


class Relay:
    """Carries one call."""

    def __init__(self, account: Account, registry: Registry, limits: Limits, redactor: Redactor, room: Room) -> None:
        """`room`: for all answers of the run that are not streamed."""
        self._account = account
        self._room = room
        self._course = account.course
        self._registry = registry
        self._limits = limits
        self._redactor = redactor
        self._meter = account.prepared.route.protocol.meter()
        self._has_left = False
        self._limit: asyncio.Timeout | None = None

    async def run(self, client: httpx.AsyncClient, request: Request, receive: Receive, send_back: Send) -> None:
        """Sends the call, and the answer back.

        Raises:
            LlmRefusal: there is no answer to pass on, and nothing has been sent to the agent yet.
        """
        watch = asyncio.create_task(self._watch(receive))
        try:
            # One that has waited long for its turn may have gone meanwhile: then nothing is asked, and nothing paid.
            await asyncio.sleep(0)
            if self._has_left:
                self._course.ended = "agent_left"
                return
            async with asyncio.timeout(self._limits.call_s) as self._limit:
                answer = await send(client, request, self._limits)
                await self._pass_on(answer, send_back)
        except UpstreamFailed as error:
            self._course.status, self._course.attempts, self._course.ended = error.status, error.attempts, "no_answer"
            self._course.given_up = error.what
            # What was sent may have been read, and be paid for.
            self._estimate(is_read=error.was_sent)
            raise
        except TimeoutError:
            self._course.ended = "agent_left" if self._has_left else "out_of_time"
            if not self._has_left or self._was_silent():
                self._course.given_up = "the provider did not answer in time"
            self._estimate()
            if not self._course.status:
                self._course.status = 504
                raise LlmRefusal(504, "api_error", "the provider did not answer in time") from None
        except asyncio.CancelledError:
            self._course.ended = "closed"
            self._estimate()
            raise
        finally:
            watch.cancel()

    async def _pass_on(self, answer: Answer, send_back: Send) -> None:
        course = self._course
        course.status, course.attempts, course.answer_headers = answer.status, answer.attempts, answer.headers()
        course.first_byte_s = round(self._account.elapsed_s(), 4)
        if answer.error is not None:
            await self._pass_error(answer, answer.error, send_back)
            return
        try:
            if answer.response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                await self._pass_stream(answer, send_back)
            else:
                await self._pass_whole(answer, send_back)
        except httpx.HTTPError as error:
            course.ended, course.given_up = "cut", "the provider broke off its answer"
            self._estimate()
            logger.warning("call {} of {} was cut: {}", self._account.number, self._run_id, type(error).__name__)
            # Nothing more is sent: the server closes the connection, so that the agent sees a cut as a cut.
        finally:
            await asyncio.shield(answer.response.aclose())

    async def _pass_stream(self, answer: Answer, send_back: Send) -> None:
        splitter, is_buffered = EventSplitter(), self._account.prepared.is_buffered
        await send_back(_start(answer.status, answer.headers()))
        async for piece in answer.response.aiter_bytes():
            events = splitter.feed(piece)
            self._read(events)
            await self._pass_bytes(self._shown(events) if is_buffered else piece, send_back)
        rest = splitter.rest()
        self._read(rest)
        if is_buffered:
            await self._pass_bytes(self._shown(rest), send_back)
        self._finish()
        await self._send(send_back, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_whole(self, answer: Answer, send_back: Send) -> None:
        with self._room.share() as take:
            await self._pass_body(await self._whole(answer, take), answer, send_back)

    async def _whole(self, answer: Answer, take: Callable[[int], None]) -> bytes:
        """The body of an answer; one that is too large was asked for so: it is the agent's."""
        body = bytearray()
        try:
            async for piece in answer.response.aiter_bytes():
                body += piece
                take(len(piece))
                if len(body) > self._limits.answer_bytes:
                    raise LlmRefusal(400, "invalid_request_error", TOO_LARGE)
        except LlmRefusal as refusal:
            self._course.status, self._course.ended = refusal.status, "too_large"
            self._meter.text_bytes = len(body)
            self._estimate()
            raise
        return bytes(body)

    async def _pass_body(self, body: bytes, answer: Answer, send_back: Send) -> None:
        value = json_object(body)
        if value is not None:
            self._meter.take(value)
        if not self._meter.is_final:
            # A server that tells no usage is not free: all of its answer is counted as text.
            self._meter.text_bytes = len(body)
        self._finish()
        self._account.tape.add(body)
        await self._send(send_back, _start(answer.status, {**answer.headers(), "content-length": str(len(body))}))
        await self._send(send_back, {"type": "http.response.body", "body": body, "more_body": False})

    async def _pass_error(self, answer: Answer, error: bytes, send_back: Send) -> None:
        self._course.ended = "provider_error"
        if answer.status in PROVIDERS_OWN:
            self._course.given_up = f"the provider answered {answer.status}"
        protocol = self._account.prepared.route.protocol
        # Providers repeat parts of a key that they refuse.
        error = self._redactor(error, self._account.token)
        self._account.tape.add(error)
        kind = ""
        if answer.status == 401:
            kind = KEY_REFUSED
        elif protocol.is_quota_gone(answer.status, json_object(error) or {}):
            kind = QUOTA_GONE
        if kind:
            logger.error("{}: {} by {}", self._run_id, kind, protocol.provider)
            self._registry.tell(self._run_id, kind, protocol.provider)
            raise LlmRefusal(402, "provider_stopped", STOPPED)
        headers = answer.headers()
        if answer.status == 429 and "retry-after" not in headers:
            # Without it some agents end at once.
            headers["retry-after"] = str(int(self._limits.retry_after_s))
        await self._send(send_back, _start(answer.status, {**headers, "content-length": str(len(error))}))
        await self._send(send_back, {"type": "http.response.body", "body": error, "more_body": False})

    def _read(self, events: list[Event]) -> None:
        for event in events:
            if event.value is not None:
                self._meter.take(event.value)

    def _shown(self, events: list[Event]) -> bytes:
        protocol = self._account.prepared.route.protocol
        return b"".join(event.raw for event in events if event.value is None or not protocol.hides(event.value))

    async def _pass_bytes(self, piece: bytes, send_back: Send) -> None:
        if piece:
            self._account.tape.add(piece)
            await self._send(send_back, {"type": "http.response.body", "body": piece, "more_body": True})

    async def _send(self, send_back: Send, message: MutableMapping[str, Any]) -> None:
        if not self._has_left:
            await send_back(message)

    def _finish(self) -> None:
        self._course.ended, self._course.is_whole = "agent_left" if self._has_left else "complete", True
        self._course.usage, self._course.is_estimate = self._meter.settled(len(self._account.prepared.body))
        self._free_of_charge()

    def _estimate(self, *, is_read: bool = True) -> None:
        """The usage of a call that did not come to its end: what was told of it, and an estimate of the rest."""
        if is_read:
            bytes_read = len(self._account.prepared.body)
            self._course.usage, self._course.is_estimate = self._meter.settled(bytes_read, self._hidden_tokens())
        self._free_of_charge()

    def _hidden_tokens(self) -> int:
        """What can have been thought unseen, and is paid, in a stream that the agent has left before it told."""
        began_s = self._course.first_byte_s
        if began_s is None or self._course.ended not in ("agent_left", "closed"):
            return 0
        seconds = self._account.elapsed_s() - began_s
        return min(int(seconds * HIDDEN_PER_S), self._account.prepared.most_written)

    def _free_of_charge(self) -> None:
        if not self._account.prepared.hold.is_billed:
            self._course.usage, self._course.is_estimate = Usage(), False

    def _was_silent(self) -> bool:
        """Whether the agent has left a stream of which not even the head had come for long."""
        is_stream = self._account.prepared.facts.is_stream or self._account.prepared.route.is_stream
        return is_stream and self._course.first_byte_s is None and self._account.elapsed_s() >= SILENT_S

    async def _watch(self, receive: Receive) -> None:
        """Notices that the agent has gone; what then still comes is read for a moment, for the usage at the end."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        is_stream = self._account.prepared.facts.is_stream or self._account.prepared.route.is_stream
        if is_stream and self._limit is not None:
            until = asyncio.get_running_loop().time() + self._limits.drain_s
            self._limit.reschedule(min(until, self._limit.when() or until))

    @property
    def _run_id(self) -> str:
        return self._account.run.spec.run_id


def _start(status: int, headers: dict[str, str]) -> MutableMapping[str, Any]:
    encoded = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": encoded}
