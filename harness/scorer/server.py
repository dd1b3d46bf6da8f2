"""The scorer service: `POST /score` judges answers, `POST /prompts` makes what is asked; each in a fresh process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from loguru import logger

from harness.domain.specs import EvalMode
from harness.executor.client import answers
from harness.scorer.evaluators.base import MODES, OWN_PROMPTS
from harness.scorer.evaluators.opencompass import is_installed
from harness.scorer.process import WorkerSpec
from harness.scorer.wire import ErrorReply, PromptsReply, PromptsRequest, ScoreReply, ScoreRequest
from harness.scorer.workers import Workers

Reply = TypeVar("Reply", ScoreReply, PromptsReply)

STATUS = {"bad_request": 400, "evaluator": 422, "timeout": 504}


@dataclass
class _Prompts:
    """The prompts that were made last, and for what."""

    request: PromptsRequest | None = None
    reply: PromptsReply | None = None


def create_app(spec: WorkerSpec) -> FastAPI:
    """The service's application for the benchmark in `spec`."""
    app = FastAPI(title="harness scorer", openapi_url=None)
    kept = _Prompts()
    # Its import takes longer than everything else in an evaluation.
    workers = Workers(spec, is_ahead=is_installed())
    workers.prepare()
    served = MODES if is_installed() else MODES - {EvalMode.OPENCOMPASS}

    @app.get("/health", response_model=None)
    async def health() -> JSONResponse:
        # A scorer that is to have an executor is not ready without one: it starts anew after each evaluation.
        if spec.executor.parent.is_dir() and not answers(spec.executor):
            return JSONResponse({"status": "waiting for the executor"}, status_code=503)
        return JSONResponse({"status": "ok"})

    @app.post("/score", response_model=None)
    def score(request: ScoreRequest) -> ScoreReply | JSONResponse:
        if refusal := _not_served(request.eval_mode, served):
            return refusal
        with workers.fresh() as worker:
            return _told("scored", len(request.items), worker.score(request))

    @app.post("/prompts", response_model=None)
    def prompts(request: PromptsRequest) -> PromptsReply | JSONResponse:
        if refusal := _not_served(request.eval_mode, served & OWN_PROMPTS):
            return refusal
        # The same for every checkpoint of a run: no answer is in it.
        if kept.reply is not None and kept.request == request:
            return kept.reply
        with workers.fresh() as worker:
            reply = _told("made prompts of", len(request.items), worker.prompts(request))
        if isinstance(reply, PromptsReply):
            kept.request, kept.reply = request, reply
        return reply

    app.add_exception_handler(RequestValidationError, _on_invalid)
    return app


def _not_served(mode: EvalMode, served: frozenset[EvalMode]) -> JSONResponse | None:
    if mode in served:
        return None
    known = ", ".join(sorted(served)) or "none"
    return _refusal(ErrorReply(kind="bad_request", detail=f"eval_mode {mode} is not served here; these are: {known}"))


def _told(what: str, n_items: int, reply: Reply | ErrorReply) -> Reply | JSONResponse:
    if isinstance(reply, ErrorReply):
        logger.warning("an evaluation of {} items failed: {}", n_items, reply.kind)
        return _refusal(reply)
    logger.info("{} {} items", what, n_items)
    return reply


def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    # Without the input: it can quote an answer.
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": "invalid"}
    where = ".".join(str(part) for part in first["loc"])
    return _refusal(ErrorReply(kind="bad_request", detail=f"{where}: {first['msg']}"))


def _refusal(reply: ErrorReply) -> JSONResponse:
    return JSONResponse(reply.model_dump(), status_code=STATUS.get(reply.kind, 500))
