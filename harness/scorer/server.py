"""The scorer service: `POST /score` runs one evaluation of one benchmark in a fresh process."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from loguru import logger

from harness.scorer.evaluators.base import MODES
from harness.scorer.process import WorkerSpec, evaluate
from harness.scorer.wire import ErrorReply, ScoreReply, ScoreRequest

STATUS = {"bad_request": 400, "evaluator": 422, "timeout": 504}


def create_app(spec: WorkerSpec) -> FastAPI:
    """The service's application for the benchmark in `spec`."""
    app = FastAPI(title="harness scorer", openapi_url=None)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/score", response_model=None)
    def score(request: ScoreRequest) -> ScoreReply | JSONResponse:
        if request.eval_mode not in MODES:
            served = ", ".join(MODES)
            return _refusal(
                ErrorReply(kind="bad_request", detail=f"eval_mode {request.eval_mode} is not served; it has: {served}")
            )
        reply = evaluate(request, spec)
        if isinstance(reply, ErrorReply):
            logger.warning("evaluation of {} items failed: {}", len(request.items), reply.kind)
            return _refusal(reply)
        logger.info("scored {} items", len(request.items))
        return reply

    app.add_exception_handler(RequestValidationError, _on_invalid)
    return app


def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    # Without the input: it can quote an answer.
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": "invalid"}
    where = ".".join(str(part) for part in first["loc"])
    return _refusal(ErrorReply(kind="bad_request", detail=f"{where}: {first['msg']}"))


def _refusal(reply: ErrorReply) -> JSONResponse:
    return JSONResponse(reply.model_dump(), status_code=STATUS.get(reply.kind, 500))
