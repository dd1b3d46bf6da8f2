"""The application behind the admin socket: what the harness asks and tells, and no agent can reach."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request
from pydantic import BaseModel

from harness.domain import admin
from harness.domain.llm import LlmCalls
from harness.domain.runs import RunKind
from harness.errors import Conflict
from harness.grader.edge import handle_errors
from harness.grader.service import Grader
from harness.grader.statuses import stats_of, status_of
from harness.store.importing import import_run
from harness.store.records_closing import close_run, reopen_run
from harness.store.records_evaluations import request_baseline
from harness.store.records_llm import add_llm_calls
from harness.store.records_queue import requeue_failed, submissions_of
from harness.store.records_runs import (
    add_event,
    add_sample,
    finish_run,
    list_runs,
    register_run,
    set_phase,
    start_clock,
)


class Done(BaseModel):
    """An answer that says nothing but that it is done; `count` where something was counted."""

    ok: bool = True
    count: int = 0


def create_admin_app(grader: Grader) -> FastAPI:
    """The admin side of `grader`."""
    app = FastAPI(title="harness grader admin", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.grader = grader
    app.include_router(router)
    handle_errors(app)
    return app


def _grader(request: Request) -> Grader:
    grader = request.app.state.grader
    assert isinstance(grader, Grader)
    return grader


Served = Annotated[Grader, Depends(_grader)]
router = APIRouter()


@router.get("/health")
async def health() -> Done:
    return Done()


@router.get("/stats")
def stats(grader: Served) -> admin.GraderStats:
    return stats_of(grader)


@router.get("/runs")
def runs(grader: Served, active: bool = False) -> list[admin.RunStatus]:
    return [status_of(grader, r.run_id, r) for r in list_runs(grader.db, active_only=active)]


@router.post("/runs")
def register(grader: Served, asked: admin.RegisterRun) -> admin.RunStatus:
    record = register_run(grader.db, asked)
    if not record.is_closed:
        run = grader.registry.put(record)
        grader.workers.wake(run)
    return status_of(grader, record.run_id, record)


@router.get("/runs/{run_id}")
def status(grader: Served, run_id: str) -> admin.RunStatus:
    return status_of(grader, run_id)


@router.post("/runs/{run_id}/phase")
def phase(grader: Served, run_id: str, asked: admin.SetPhase) -> admin.RunStatus:
    record = set_phase(grader.db, run_id, asked)
    grader.registry.put(record)
    return status_of(grader, run_id, record)


@router.post("/runs/{run_id}/baseline")
def baseline(grader: Served, run_id: str) -> admin.RunStatus:
    run = grader.active(run_id)
    request_baseline(grader.db, run_id)
    grader.workers.wake(run)
    return status_of(grader, run_id)


@router.post("/runs/{run_id}/submissions")
def grade(grader: Served, run_id: str, asked: admin.GradeCheckpoint) -> admin.RunStatus:
    """Hands in the checkpoint of a grading, once; the run's status has what became of it."""
    run = grader.active(run_id)
    if run.plan.kind is not RunKind.GRADE:
        raise Conflict(f"run {run_id} has an agent", "Its submissions are the agent's.")
    if not submissions_of(grader.db, run_id):
        grader.intake.admit(run, grader.intake.reserve(run, asked.model_path, note=None))
    return status_of(grader, run_id)


@router.post("/runs/{run_id}/clock")
def clock(grader: Served, run_id: str, asked: admin.StartClock) -> admin.RunStatus:
    record = start_clock(grader.db, run_id, asked)
    grader.registry.put(record)
    return status_of(grader, run_id, record)


@router.post("/runs/{run_id}/events")
def event(grader: Served, run_id: str, asked: admin.EventIn) -> Done:
    add_event(grader.db, run_id, asked)
    return Done()


@router.post("/runs/{run_id}/samples")
def sample(grader: Served, run_id: str, asked: admin.ResourceSampleIn) -> Done:
    add_sample(grader.db, run_id, asked)
    return Done()


@router.post("/runs/{run_id}/llm-calls")
def llm_calls(grader: Served, run_id: str, asked: LlmCalls) -> Done:
    add_llm_calls(grader.db, run_id, asked.calls)
    return Done()


@router.post("/runs/{run_id}/finish")
def finish(grader: Served, run_id: str, asked: admin.FinishRun) -> admin.RunStatus:
    record = finish_run(grader.db, run_id, asked)
    if not record.is_closed:
        grader.registry.put(record)
    return status_of(grader, run_id, record)


@router.post("/runs/{run_id}/close")
def close(grader: Served, run_id: str, asked: admin.CloseRun) -> admin.RunStatus:
    record = close_run(grader.db, run_id, asked)
    grader.registry.remove(run_id)
    for submission in submissions_of(grader.db, run_id):
        grader.waiters.wake(submission.id)
    grader.intake.settle(run_id)
    return status_of(grader, run_id, record)


@router.post("/runs/{run_id}/reopen")
def reopen(grader: Served, run_id: str) -> admin.RunStatus:
    record = reopen_run(grader.db, run_id)
    grader.workers.wake(grader.registry.put(record))
    return status_of(grader, run_id, record)


@router.post("/runs/{run_id}/release")
def release(grader: Served, run_id: str) -> Done:
    """Lets go of the run's workspace, which could not be unmounted before; it may be handed over again."""
    run = grader.registry.find(run_id)
    if run is not None:
        run.output.replace(None)
    return Done()


@router.post("/runs/{run_id}/requeue")
def requeue(grader: Served, run_id: str) -> Done:
    run = grader.active(run_id)
    count = requeue_failed(grader.db, run_id)
    grader.shop.refresh_queue_length(run)
    grader.workers.wake(run)
    return Done(count=count)


@router.post("/import")
async def imported(request: Request, grader: Served) -> Done:
    data = await request.body()
    await grader.in_thread(import_run, grader.db, data)
    return Done(count=1)
