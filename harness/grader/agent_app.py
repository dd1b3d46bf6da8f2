"""The application that agents reach: six routes below a run's capability address, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
from fastapi.responses import JSONResponse

from harness.errors import ErrorClass
from harness.grader.edge import handle_errors, read_model
from harness.grader.gpu_memory import refused
from harness.grader.registry import ActiveRun
from harness.grader.replies import all_of, health_of, reply_to, time_of
from harness.grader.schemas import (
    Accepted,
    HealthReply,
    Reply,
    SubmissionReply,
    SubmissionsReply,
    SubmitReply,
    SubmitRequest,
    TimeReply,
    ValidateReply,
)
from harness.grader.service import Grader
from harness.grader.workshop import own_trouble, stopped_while_waiting
from harness.store.models import SubmissionRecord
from harness.store.records_queue import get_submission

ACCEPTED = 202
# Nobody reads it: the client has hung up.
CLIENT_GONE = 499
MAX_NUMBER = 2**31 - 1
# Where agents find the grader. The published `--port` names a port of the host, which no agent reaches.
PORT = 5000


def create_agent_app(grader: Grader) -> FastAPI:
    """The agent side of `grader`."""
    app = FastAPI(title="harness grader", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.grader = grader
    app.include_router(router)
    handle_errors(app)
    return app


def _grader(request: Request) -> Grader:
    grader = request.app.state.grader
    assert isinstance(grader, Grader)
    return grader


async def _authorised(request: Request, token: str) -> ActiveRun:
    return _grader(request).registry.authorised(token, request.client.host if request.client else "")


Run = Annotated[ActiveRun, Depends(_authorised)]
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER)]
router = APIRouter(prefix="/r/{token}")


@router.post("/submit", response_model=SubmitReply)
async def submit(request: Request, run: Run, wait: bool = True) -> Response:
    """Takes a checkpoint in, and answers with its score once that is known (`?wait=false`: at once)."""
    grader = _grader(request)
    with run.submits.enter():
        asked = await read_model(request, SubmitRequest)
        record = await grader.in_thread(grader.intake.reserve, run, asked.model_path, asked.ignored())
        record = await asyncio.wrap_future(grader.intake.admit(run, record))
        if not wait:
            return _json(_accepted(request, record), ACCEPTED)
        return await _answer(grader, run, request, record)


@router.post("/validate", response_model=ValidateReply)
async def check(request: Request, run: Run) -> Response:
    """Everything that `/submit` does but the score; not counted and not recorded."""
    with run.submits.enter(), run.validations.enter():
        asked = await read_model(request, SubmitRequest)
        return _json(await _grader(request).validation.validate(run, asked))


@router.get("/submissions", response_model=SubmissionsReply)
async def submissions(request: Request, run: Run) -> Response:
    """Every submission of this run."""
    grader = _grader(request)
    with run.reads.enter():
        return await grader.in_turn(run, lambda: _json(all_of(grader.db, run)))


@router.get("/submissions/{submission_id}", response_model=SubmissionReply)
async def submission(request: Request, run: Run, submission_id: Number) -> Response:
    """One submission of this run."""
    grader = _grader(request)
    with run.reads.enter():
        return await grader.in_turn(run, lambda: _json(reply_to(grader.db, run, submission_id)))


@router.get("/time", response_model=TimeReply)
async def time(run: Run) -> TimeReply:
    """The run's clock; from memory, so that it always answers."""
    return time_of(run)


@router.get("/health", response_model=HealthReply)
async def health(run: Run) -> HealthReply:
    """Whether the grader answers; from memory, so that it always does."""
    return health_of(run)


async def _answer(grader: Grader, run: ActiveRun, request: Request, record: SubmissionRecord) -> Response:
    """The reply once the submission has ended. Waits on an event and holds no thread; a client may hang up."""
    gone = asyncio.create_task(_hung_up(request))
    try:
        with grader.waiters.watch(record.id) as ended:
            while not (record := await grader.in_thread(get_submission, grader.db, record.id)).state.is_final:
                if grader.waiters.is_stopping:
                    raise stopped_while_waiting()
                await _first_of(ended, gone)
                if gone.done():
                    return Response(status_code=CLIENT_GONE)
    finally:
        gone.cancel()
    view = await grader.in_thread(reply_to, grader.db, run, record.number)
    if view.reply is None:
        # Only the grader itself rejects what it had queued.
        if view.error_class is ErrorClass.NO_GPU_MEMORY:
            raise refused(view.error or "", record.number)
        raise own_trouble()
    return _json(view.reply)


async def _first_of(ended: asyncio.Event, gone: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        ended.clear()


async def _hung_up(request: Request) -> None:
    """Returns when the client is gone; its body has been read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _accepted(request: Request, record: SubmissionRecord) -> Accepted:
    base = request.url.path.rsplit("/", 1)[0]
    return Accepted(
        submission_id=record.number,
        status_url=f"http://grader:{PORT}{base}/submissions/{record.number}",
        note=record.note,
    )


def _json(reply: Reply, status: int = 200) -> JSONResponse:
    return JSONResponse(reply.model_dump(mode="json"), status)
