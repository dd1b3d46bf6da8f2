"""Plans, items and whole runs to fill a database with; every number is chosen, so that results can be worked out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.domain.admin import CloseRun, FinishRun, RegisterRun, StartClock
from harness.domain.items import Part
from harness.domain.llm import LlmCall
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
from harness.store.database import WritableDatabase
from harness.store.models import ItemScore, NewEvaluation, NewSubmission, Quota, RunRecord, SubmissionRecord
from harness.store.records_closing import close_run
from harness.store.records_evaluations import mark_baseline_scoring, request_baseline, save_evaluation, set_baseline
from harness.store.records_runs import finish_run, get_run, register_run, start_clock
from harness.store.records_submissions import mark_admitted, mark_scored, mark_scoring, new_submission

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OWNER = Owner(pid=1, started_ticks=2, boot_id="boot", host="here")
NO_QUOTA = Quota(max_rejected=1000, max_rejected_per_hour=1000)
ENGINE = EngineSpec(image="harness-inference:0123456789ab", device="cpu")


def plan(number: int = 1, *, agent: str = "example", limits: Limits | None = None, **more: Any) -> RunPlan:
    """A plan; `number` makes the run id."""
    values: dict[str, Any] = {
        "run_id": f"20260102T030405_{agent}_{number:04x}",
        "created_at": START + timedelta(minutes=number),
        "agent": Agent(id=agent, path=Path("agents") / agent, digest="a" * 64, config=AgentConfig(name=agent)),
        "benchmark": Benchmark(
            id="sums", path=Path("benchmarks/sums"), digest="b" * 64, config=BenchmarkConfig(name="sums")
        ),
        "model": ModelRef(repo_id="tiny", revision="1", path=Path("models/tiny"), tree_hash="c" * 64, size_bytes=10),
        "data": DataRef(
            train_path=Path("train/x"), eval_path=Path("eval/x"), eval_hash="d" * 64, train_items=9, eval_items=8
        ),
        "protocol": Protocol.STANDARD,
        "limits": limits or Limits(timeout_s=600),
        "images": {"agent": "harness-agent:0123456789ab"},
        "engine": ENGINE,
    }
    return RunPlan(**{**values, **more})


def items(feedback: Sequence[float], final: Sequence[float]) -> tuple[ItemScore, ...]:
    """Items `f0`, `f1`, ... of the feedback part and `z0`, `z1`, ... of the final part with these scores."""
    parts = ((Part.FEEDBACK, "f", feedback), (Part.FINAL, "z", final))
    return tuple(
        ItemScore(item_id=f"{name}{k}", part=part, score=score, output=f"answer {k}", output_tokens=4)
        for part, name, scores in parts
        for k, score in enumerate(scores)
    )


def registered(db: WritableDatabase, run_plan: RunPlan, *, is_started: bool = True) -> RunRecord:
    """A run whose clock has started at `START`."""
    request = RegisterRun(
        plan=run_plan, owner=OWNER, token_sha256=run_plan.run_id.ljust(64, "0"), subnet="10.213.0.0/28"
    )
    run = register_run(db, request)
    if is_started:
        deadline = START + timedelta(seconds=run_plan.limits.timeout_s)
        run = start_clock(db, run.run_id, StartClock(started_at=START, deadline=deadline))
    return run


def evaluated(db: WritableDatabase, run: RunRecord, tree_hash: str, scores: tuple[ItemScore, ...]) -> int:
    """Id of an evaluation of these bytes."""
    evaluation = NewEvaluation(key=run.evaluation_key(tree_hash), engine=run.plan.engine, items=scores)
    return save_evaluation(db, evaluation).id


def with_baseline(db: WritableDatabase, run: RunRecord, scores: tuple[ItemScore, ...]) -> None:
    """Scores the run's baseline, unless another run has."""
    if request_baseline(db, run.run_id).is_cached:
        return
    mark_baseline_scoring(db, run.run_id)
    set_baseline(db, run.run_id, evaluated(db, run, run.plan.model.tree_hash, scores))


def submitted(db: WritableDatabase, run_id: str, after_s: float = 1, quota: Quota = NO_QUOTA) -> SubmissionRecord:
    """A submission that is being admitted."""
    at = START + timedelta(seconds=after_s)
    return new_submission(db, NewSubmission(run_id=run_id, model_path="output/v1", submitted_at=at), quota)


def queued(db: WritableDatabase, run_id: str, tree_hash: str, after_s: float = 1) -> SubmissionRecord:
    """A submission that waits."""
    new = submitted(db, run_id, after_s)
    return mark_admitted(db, new.id, tree_hash, copied_at=START + timedelta(seconds=after_s + 1))


def scored(db: WritableDatabase, run: RunRecord, tree_hash: str, scores: tuple[ItemScore, ...]) -> SubmissionRecord:
    """A submission with these item scores."""
    waiting = queued(db, run.run_id, tree_hash)
    mark_scoring(db, waiting.id)
    return mark_scored(db, waiting.id, evaluated(db, run, tree_hash, scores))


def closed(db: WritableDatabase, run_id: str, ended_by: EndedBy = EndedBy.FINISHED) -> RunRecord:
    """The run with its verdict, 100 seconds after its start."""
    finish_run(db, run_id, FinishRun(ended_by=ended_by), at=START + timedelta(seconds=100))
    return close_run(db, run_id, CloseRun(), at=START + timedelta(seconds=120))


def llm_call(number: int, run_id: str, usd: float = 0.1, **detail: Any) -> LlmCall:
    """An answered call of ten tokens; `detail` as the gateway writes it."""
    tokens = {"input_tokens": 7, "cached_tokens": 2, "cache_write_tokens": 1, "output_tokens": 3}
    told = {"number": number, "run_id": run_id, "at": START, "provider": "p", "model": "m", "http_status": 200}
    return LlmCall.model_validate({**tokens, **told, "cost_usd": usd, "seconds": 1.5, "detail": detail})


def graded(
    db: WritableDatabase,
    run_plan: RunPlan,
    baseline: tuple[ItemScore, ...],
    *submissions: tuple[ItemScore, ...],
) -> RunRecord:
    """A whole run: baseline, submissions in this order, verdict."""
    run = registered(db, run_plan)
    with_baseline(db, run, baseline)
    for index, scores in enumerate(submissions):
        scored(db, run, f"{run.run_id}-{index}", scores)
    return closed(db, get_run(db, run.run_id).run_id)
