"""The HTTP edge of both applications: bounded bodies, and one handler that turns errors into one JSON shape."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from loguru import logger
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from harness.errors import ErrorClass, HarnessError, InfrastructureError, NotFound, RequestError, TooLarge, UsageError
from harness.grader.registry import no_such_address
from harness.grader.schemas import ErrorReply
from harness.grader.workshop import own_trouble

MAX_BODY_BYTES = 64 * 2**10
BODY_TIMEOUT_S = 10.0
METHOD_NOT_ALLOWED = 405

Model = TypeVar("Model", bound=BaseModel)


async def read_model(request: Request, model: type[Model]) -> Model:
    """The request's JSON body as `model`; read no further than the cap, and not for ever.

    Raises:
        TooLarge: more bytes than the cap.
        RequestError: slow, not JSON, nested too deep, or not of this shape.
    """
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            body = await _body(request)
    except TimeoutError as error:
        raise RequestError("the request's body did not arrive in time", "Send it whole.") from error
    try:
        # pydantic's own parser: it bounds the depth, and refuses what UTF-8 cannot hold.
        return model.model_validate_json(body)
    except ValidationError as error:
        raise RequestError(*_told(error.errors(include_input=False, include_url=False))) from error


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(f"a request has at most {MAX_BODY_BYTES} bytes", 'Send {"model_path": "output/v1"}.')
    return bytes(body)


def handle_errors(app: FastAPI) -> None:
    """Gives `app` the one handler."""
    for kind in (HarnessError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _on_error)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    known = _as_request_error(request, error)
    headers = {}
    if known.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(known.retry_after_s))
    body = ErrorReply(
        error=known.what,
        detail=known.fix,
        error_class=known.error_class,
        submission_id=known.submission_id,
    )
    return JSONResponse(body.model_dump(mode="json", exclude_none=True), known.status, headers=headers)


class Unexpected(RequestError):
    """A mistake of the grader's own; what it was is in the log only."""

    status = 500
    default_class = ErrorClass.GRADER_TROUBLE


def _as_request_error(request: Request, error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RequestValidationError):
        return RequestError(*_told(error.errors()))
    if isinstance(error, HTTPException):
        if error.status_code == METHOD_NOT_ALLOWED:
            return RequestError("this address takes no such method", "See instructions.md for the grader's addresses.")
        return no_such_address() if error.status_code == NotFound.status else RequestError("bad request", "")
    if isinstance(error, UsageError):
        return RequestError(error.what, error.fix)
    if isinstance(error, InfrastructureError):
        logger.warning("{} {}: {}", request.method, _route(request), error)
        return own_trouble()
    logger.opt(exception=error).error("{} {} failed", request.method, _route(request))
    return Unexpected("the grader made a mistake", "Try again; it is in the grader's log.")


def _route(request: Request) -> str:
    """The address as it is written in the application: the real one holds the run's token."""
    route = request.scope.get("route")
    return str(getattr(route, "path", "unknown address"))


def _told(errors: Sequence[Any]) -> tuple[str, str]:
    first = errors[0] if errors else {}
    place = first.get("loc")
    where = ".".join(str(part) for part in place) if isinstance(place, tuple) else ""
    return f"bad request: {where or 'body'}: {first.get('msg', 'invalid')}"[:500], 'Send {"model_path": "output/v1"}.'
