"""The harness's side of a gateway's admin socket: HTTP over a unix socket, every call with a deadline."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.domain.connections import Connection
from harness.domain.llm import Answering, LlmCall, LlmEvent, LlmRun, LlmUsage
from harness.errors import InfrastructureError, ServiceUnavailable
from harness.unix_http import UnixHttp

# The gateway answers from memory, or from one file of the run.
CALL_TIMEOUT_S = 20.0
# It asks its provider, for a minute at most.
ASK_TIMEOUT_S = 90.0
# 5,000 calls, the most that come at a time.
MAX_REPLY_BYTES = 32 * 2**20
MAX_WORDS = 300
Form = TypeVar("Form")
_USAGE = TypeAdapter(LlmUsage)
_CALLS = TypeAdapter(tuple[LlmCall, ...])
_CONNECTIONS = TypeAdapter(tuple[Connection, ...])
_ANSWERING = TypeAdapter(Answering)
_EVENTS = TypeAdapter(tuple[LlmEvent, ...])


class GatewayClient:
    """Talks to the gateway of one run."""

    def __init__(self, socket: Path, run_id: str) -> None:
        self._http = UnixHttp(socket, "gateway", MAX_REPLY_BYTES)
        self._run_id = run_id

    def open_run(self, run: LlmRun) -> LlmUsage:
        """Lets the run call; what it has used before stays used.

        Raises:
            ServiceUnavailable: the gateway does not answer.
            InfrastructureError: it refuses.
        """
        return self._call(_USAGE, "POST", "/runs", run)

    def close_run(self) -> LlmUsage:
        """Ends the run's calls, also those under way; what it has used. Raises: as above."""
        return self._call(_USAGE, "POST", f"/runs/{self._run_id}/close")

    def ask_again(self) -> Answering:
        """Whether the provider answers what it has answered this run before. Raises: as above."""
        return self._call(_ANSWERING, "POST", f"/runs/{self._run_id}/ask-again", timeout_s=ASK_TIMEOUT_S)

    def usage(self) -> LlmUsage:
        """What the run has used so far. Raises: as above."""
        return self._call(_USAGE, "GET", f"/runs/{self._run_id}/usage")

    def calls(self, skip: int) -> tuple[LlmCall, ...]:
        """Its calls that have ended, without the first `skip`, at most 5,000. Raises: as above."""
        return self._call(_CALLS, "GET", f"/runs/{self._run_id}/calls?skip={skip}")

    def connections(self, skip: int) -> tuple[Connection, ...]:
        """Its connections through the proxy that have ended, as its calls. Raises: as above."""
        return self._call(_CONNECTIONS, "GET", f"/runs/{self._run_id}/connections?skip={skip}")

    def events(self, after: int) -> tuple[LlmEvent, ...]:
        """What the harness must act on, numbered above `after`. Raises: as above."""
        return self._call(_EVENTS, "GET", f"/events?after={after}")

    def _call(
        self,
        form: TypeAdapter[Form],
        method: str,
        path: str,
        body: BaseModel | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Form:
        reply = self._http.request(method, path, timeout_s, body)
        words = reply.body[:MAX_WORDS].decode(errors="replace")
        if reply.status != 200:
            raise InfrastructureError(f"the gateway refused {method} {path} with {reply.status}: {words}")
        try:
            return form.validate_json(reply.body)
        except ValidationError as error:
            raise ServiceUnavailable(f"the gateway answered {method} {path} with something else: {words}") from error
