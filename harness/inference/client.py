"""The grader's half of the inference service: requests over its unix socket, and replies that are checked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from harness.errors import EvaluationFailed, HarnessError, LoadFailed, NoGpuMemory, ServiceUnavailable, TooSlow
from harness.inference.wire import (
    EngineInfo,
    ErrorReply,
    GenerateReply,
    GenerateRequest,
    Health,
    LoadReply,
    LoadRequest,
    SleepReply,
)
from harness.unix_http import Reply, UnixHttp

Wire = TypeVar("Wire", bound=BaseModel)

HEALTH_TIMEOUT_S = 5.0
SLEEP_TIMEOUT_S = 120.0
# The service ends itself at its limit; this is for one that does not even do that, and for a busy machine.
GRACE_S = 15.0
MAX_DETAIL = 4_000
OK = 200


class InferenceClient:
    """Calls of one inference service. `timeout_s` holds for a call as a whole; `load` and `generate` bring a limit."""

    def __init__(self, socket: Path, timeout_s: float = 3_600) -> None:
        self._http = UnixHttp(socket, "inference")
        self._timeout_s = timeout_s

    def is_ready(self) -> bool:
        """Whether the service answers and its engine can be given weights."""
        try:
            reply = self._http.request("GET", "/health", min(HEALTH_TIMEOUT_S, self._timeout_s))
            return _parse(reply, Health).ready
        except (ServiceUnavailable, EvaluationFailed, LoadFailed):
            return False

    def info(self) -> EngineInfo:
        """What the engine is; waits until it is up."""
        return _parse(self._http.request("GET", "/info", self._timeout_s), EngineInfo)

    def load(self, request: LoadRequest) -> LoadReply:
        """Makes the service serve the weights in `request.path`.

        Raises:
            LoadFailed: these weights cannot be served; the service lives on.
            NoGpuMemory: others hold the memory that the engine needs; the service lives on.
            TooSlow: it was not done within the request's limit.
            ServiceUnavailable: the service does not answer or broke off.
        """
        return _parse(self._limited("/load", request), LoadReply)

    def generate(self, request: GenerateRequest) -> GenerateReply:
        """One completion for each prompt, in order.

        Raises:
            EvaluationFailed: the engine gave no answers, or not one for each prompt.
            TooSlow: it was not done within the request's limit.
            ServiceUnavailable: the service does not answer or broke off.
        """
        reply = _parse(self._limited("/generate", request), GenerateReply)
        if len(reply.completions) != len(request.prompts):
            raise ServiceUnavailable(
                f"the inference service gave {len(reply.completions)} completions for {len(request.prompts)} prompts"
            )
        cap = request.sampling.max_tokens
        if any(not 0 <= completion.output_tokens <= cap for completion in reply.completions):
            raise ServiceUnavailable(f"the inference service reports completions of more than {cap} tokens")
        return reply

    def sleep(self) -> SleepReply:
        """Makes the service give up GPU memory until the next load.

        Raises:
            ServiceUnavailable: the service does not answer or broke off.
        """
        return _parse(self._http.request("POST", "/sleep", min(SLEEP_TIMEOUT_S, self._timeout_s)), SleepReply)

    def _limited(self, path: str, request: LoadRequest | GenerateRequest) -> Reply:
        started = time.monotonic()
        try:
            return self._http.request("POST", path, request.limit_s + GRACE_S, request)
        except ServiceUnavailable as error:
            if time.monotonic() - started < request.limit_s:
                raise
            raise TooSlow(f"{path} was not done within {request.limit_s:.0f} s", error.fix) from error


def _parse(reply: Reply, model: type[Wire]) -> Wire:
    if reply.status != OK:
        raise _failure(reply)
    try:
        return model.model_validate_json(reply.body)
    except ValidationError as error:
        raise ServiceUnavailable(f"the inference service sent no valid {model.__name__}: {_first(error)}") from error


def _failure(reply: Reply) -> HarnessError:
    try:
        told = ErrorReply.model_validate_json(reply.body)
    except ValidationError:
        return ServiceUnavailable(f"the inference service answered with status {reply.status}")
    if told.kind == "load_failed":
        return LoadFailed(told.detail[:MAX_DETAIL])
    if told.kind == "no_memory" and told.shortage is not None:
        return NoGpuMemory(told.shortage.free_bytes, told.shortage.needed_bytes)
    return EvaluationFailed(f"inference ({told.kind[:20]}): {told.detail[:MAX_DETAIL]}")


def _first(error: ValidationError) -> str:
    return str(error.errors(include_input=False)[0]["msg"])
