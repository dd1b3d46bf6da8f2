"""The harness's side of the grader's admin socket: HTTP over a unix socket, and descriptors beside it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from pydantic import BaseModel, TypeAdapter
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from harness.domain import admin
from harness.domain.llm import LlmCalls
from harness.errors import GraderUnavailable, InfrastructureError, ServiceUnavailable, UnknownRun, UsageError
from harness.home import Home
from harness.unix_http import Reply, UnixHttp
from harness.unix_socket import reachable

SUCCESS = range(200, 300)
# One admin call; the grader answers from memory or one short transaction, so this only bounds a hang.
CALL_TIMEOUT_S = 30.0
# How long calls of a running trial wait for a grader that is being restarted.
RESTART_PATIENCE_S = 60.0


class GraderClient:
    """Talks to the grader of one home. Calls are idempotent, so a call cut off by a restart is made again."""

    def __init__(
        self, home: Home, patience_s: float = RESTART_PATIENCE_S, revive: Callable[[], None] = lambda: None
    ) -> None:
        self._home = home
        self._http = UnixHttp(home.admin_socket, "grader")
        self._patience_s = patience_s
        # Called before a call that found no grader is made again.
        self._revive = revive

    def stats(self) -> admin.GraderStats:
        """Who the grader is, tried once.

        Raises:
            GraderUnavailable: it does not answer.
        """
        return admin.GraderStats.model_validate_json(self._once("GET", "/stats", None))

    def stats_soon(self) -> admin.GraderStats:
        """Who the grader is; waits for one that is being restarted."""
        return admin.GraderStats.model_validate_json(self._text("GET", "/stats", None))

    def register(self, run: admin.RegisterRun) -> admin.RunStatus:
        return self._call("POST", "/runs", run)

    def status(self, run_id: str) -> admin.RunStatus:
        return self._call("GET", f"/runs/{run_id}")

    def find(self, run_id: str) -> admin.RunStatus | None:
        """The run's status, None if the grader knows no such run."""
        try:
            return self.status(run_id)
        except UnknownRun:
            return None

    def active_runs(self) -> list[admin.RunStatus]:
        """Runs that have not ended."""
        text = self._text("GET", "/runs?active=true", None)
        return TypeAdapter(list[admin.RunStatus]).validate_json(text)

    def set_phase(self, run_id: str, phase: admin.SetPhase) -> admin.RunStatus:
        return self._call("POST", f"/runs/{run_id}/phase", phase)

    def ask_baseline(self, run_id: str) -> admin.RunStatus:
        """Asks for the baseline; it is there at once when cached, else queued."""
        return self._call("POST", f"/runs/{run_id}/baseline")

    def grade(self, run_id: str, checkpoint: admin.GradeCheckpoint) -> admin.RunStatus:
        """Hands in the checkpoint of a grading."""
        return self._call("POST", f"/runs/{run_id}/submissions", checkpoint)

    def start_clock(self, run_id: str, clock: admin.StartClock) -> admin.RunStatus:
        return self._call("POST", f"/runs/{run_id}/clock", clock)

    def add_event(self, run_id: str, event: admin.EventIn) -> None:
        self._text("POST", f"/runs/{run_id}/events", event)

    def add_sample(self, run_id: str, sample: admin.ResourceSampleIn) -> None:
        self._text("POST", f"/runs/{run_id}/samples", sample)

    def add_llm_calls(self, run_id: str, calls: LlmCalls) -> None:
        """Has calls written down; those that are there already stay as they are."""
        self._text("POST", f"/runs/{run_id}/llm-calls", calls)

    def finish(self, run_id: str, finish: admin.FinishRun) -> admin.RunStatus:
        return self._call("POST", f"/runs/{run_id}/finish", finish)

    def close(self, run_id: str, close: admin.CloseRun) -> admin.RunStatus:
        return self._call("POST", f"/runs/{run_id}/close", close)

    def release(self, run_id: str) -> None:
        """Has the grader let go of the run's workspace."""
        self._text("POST", f"/runs/{run_id}/release", None)

    def reopen(self, run_id: str) -> admin.RunStatus:
        return self._call("POST", f"/runs/{run_id}/reopen")

    def import_run(self, record: BaseModel) -> None:
        """Takes in another database's run (its `record.json`); the same record again changes nothing.

        Raises:
            UsageError: the record is invalid, or a run of this id is here with other content.
        """
        self._text("POST", "/import", record)

    def hand_over(self, run_id: str, directory: Path) -> None:
        """Passes an open descriptor of the agent's workspace (a later mount is not visible through a bind).

        Raises:
            GraderUnavailable: the grader does not take it now.
        """
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            with (
                reachable(self._home.descriptor_socket) as path,
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
            ):
                connection.settimeout(CALL_TIMEOUT_S)
                connection.connect(path)
                line = json.dumps({"run_id": run_id}).encode() + b"\n"
                socket.send_fds(connection, [line], [descriptor])
                reply = json.loads(connection.makefile().readline() or "{}")
        except (OSError, ValueError) as error:
            raise GraderUnavailable(f"the grader took no descriptor: {error}", "Run `harness up`.") from error
        finally:
            os.close(descriptor)
        if not reply.get("ok"):
            raise GraderUnavailable(f"the grader refused the workspace: {reply.get('error', 'no reply')}")

    def _call(self, method: str, path: str, body: BaseModel | None = None) -> admin.RunStatus:
        return admin.RunStatus.model_validate_json(self._text(method, path, body))

    def _text(self, method: str, path: str, body: BaseModel | None) -> str:
        patient = retry(
            retry=retry_if_exception_type(GraderUnavailable),
            stop=stop_after_delay(self._patience_s),
            wait=wait_random_exponential(multiplier=0.2, max=3),
            before_sleep=lambda _: self._revive(),
            reraise=True,
        )
        return patient(self._once)(method, path, body)

    def _once(self, method: str, path: str, body: BaseModel | None) -> str:
        try:
            reply = self._http.request(method, path, CALL_TIMEOUT_S, body)
        except ServiceUnavailable as error:
            raise GraderUnavailable(error.what, "Run `harness up`.") from error
        return _checked(reply, f"{method} {path}")


def _checked(reply: Reply, call: str) -> str:
    text = reply.body.decode(errors="replace")
    if reply.status in SUCCESS:
        return text
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise GraderUnavailable(f"{call}: {text[:500]}")
    if reply.status == HTTPStatus.NOT_FOUND:
        raise UnknownRun(f"the grader refused {call}: {_what(text)}", "`harness list` shows the runs it knows.")
    if reply.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT, HTTPStatus.GONE):
        raise UsageError(f"the grader refused {call}: {_what(text)}", "`harness list` shows the runs it knows.")
    raise InfrastructureError(f"the grader refused {call} with {reply.status}: {_what(text)}")


def _what(text: str) -> str:
    try:
        body = json.loads(text)
        return str(body.get("error", body))[:500]
    except (ValueError, AttributeError):
        return text[:500]
