"""A home with one graded and one refused run in its database, made through the store alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.domain.admin import CloseRun, EventIn, FinishRun, RegisterRun, ResourceSampleIn, StartClock
from harness.domain.items import Part
from harness.domain.runs import EndedBy, Owner
from harness.domain.specs import (
    Agent,
    AgentConfig,
    Benchmark,
    BenchmarkConfig,
    DataRef,
    EngineSpec,
    Limits,
    ModelRef,
    Protocol,
    RunPlan,
)
from harness.errors import ErrorClass
from harness.home import Home
from harness.store import records_closing as closing
from harness.store import records_evaluations as evaluations
from harness.store import records_runs as runs
from harness.store import records_submissions as submissions
from harness.store.database import WritableDatabase, open_writer
from harness.store.models import ItemScore, NewEvaluation, NewSubmission
from harness.store.quota import quota_of

GRADED = "20260101T120000_example_ab12"
EMPTY = "20260102T120000_noop_cd34"
ITEMS = 20
STARTED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def plan_of(run_id: str) -> RunPlan:
    agent_id = run_id.split("_")[1]
    return RunPlan(
        run_id=run_id,
        created_at=STARTED,
        agent=Agent(id=agent_id, path=Path("agents") / agent_id, digest="a" * 64, config=AgentConfig(name=agent_id)),
        benchmark=Benchmark(
            id="arithmetic",
            path=Path("benchmarks/arithmetic"),
            digest="b" * 64,
            config=BenchmarkConfig(name="arithmetic"),
        ),
        model=ModelRef(repo_id="tiny-arith", revision="local", path=Path("models/t"), tree_hash="c" * 64, size_bytes=1),
        data=DataRef(
            train_path=Path("train/a"), eval_path=Path("eval/a"), eval_hash="d" * 64, train_items=9, eval_items=ITEMS
        ),
        protocol=Protocol.STANDARD,
        limits=Limits(timeout_s=600),
        images={"agent": "harness-agent:1"},
        engine=EngineSpec(image="harness-inference:1", device="cpu:test"),
    )


def evaluate(db: WritableDatabase, run_id: str, tree_hash: str, right: int) -> int:
    """An evaluation with `right` right items in each part; returns its id."""
    record = runs.get_run(db, run_id)
    items = tuple(
        ItemScore(item_id=f"{part}{n}", part=part, score=float(n < right)) for part in Part for n in range(ITEMS // 2)
    )
    new = NewEvaluation(key=record.evaluation_key(tree_hash), engine=record.plan.engine, items=items)
    return evaluations.save_evaluation(db, new).id


def begin(db: WritableDatabase, run_id: str) -> None:
    owner = Owner(pid=1, started_ticks=1, boot_id="boot", host="host")
    runs.register_run(db, RegisterRun(plan=plan_of(run_id), owner=owner, token_sha256="f" * 64, subnet="10.0.0.0/28"))
    if not evaluations.request_baseline(db, run_id).is_cached:
        evaluations.mark_baseline_scoring(db, run_id)
        evaluations.set_baseline(db, run_id, evaluate(db, run_id, "c" * 64, right=3))
    runs.start_clock(db, run_id, StartClock(started_at=STARTED, deadline=STARTED + timedelta(seconds=600)))


def hand_in(db: WritableDatabase, run_id: str, path: str) -> int:
    at = STARTED + timedelta(seconds=60)
    return submissions.new_submission(
        db, NewSubmission(run_id=run_id, model_path=path, submitted_at=at), quota_of(plan_of(run_id))
    ).id


def fill(db: WritableDatabase) -> None:
    begin(db, GRADED)
    scored = hand_in(db, GRADED, "output/v1")
    submissions.mark_admitted(db, scored, "1" * 64, copied_at=STARTED + timedelta(seconds=61))
    submissions.mark_scoring(db, scored)
    submissions.mark_scored(db, scored, evaluate(db, GRADED, "1" * 64, right=9))
    refused = hand_in(db, GRADED, "output/v2")
    submissions.reject_submission(db, refused, ErrorClass.NO_WEIGHTS, "the folder is empty")
    runs.add_event(db, GRADED, EventIn(kind="agent_started", detail={"image": "harness-agent:1"}))
    runs.add_sample(db, GRADED, ResourceSampleIn(cpu_pct=50, memory_mb=100, disk_mb=10, pids=3))
    runs.finish_run(db, GRADED, FinishRun(ended_by=EndedBy.FINISHED, exit_code=0))
    closing.close_run(db, GRADED, CloseRun())
    begin(db, EMPTY)
    runs.finish_run(db, EMPTY, FinishRun(ended_by=EndedBy.FINISHED, exit_code=0))
    closing.close_run(db, EMPTY, CloseRun())


@pytest.fixture
def recorded(own_settings: Home) -> Home:
    db = open_writer(own_settings.db)
    try:
        fill(db)
    finally:
        db.close()
    own_settings.run(GRADED).path.mkdir()
    return own_settings
