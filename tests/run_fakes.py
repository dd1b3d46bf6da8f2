"""A grader and the objects of a run, in memory: they do what the real ones promise, as far as the run loop sees it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.domain.admin import (
    BaselineView,
    CloseRun,
    EventIn,
    FinishRun,
    RegisterRun,
    ResourceSampleIn,
    RunStatus,
    SetPhase,
    StartClock,
)
from harness.domain.base import now_utc
from harness.domain.connections import Connection
from harness.domain.llm import Answering, DriverLlm, LlmBudget, LlmCall, LlmCalls, LlmEvent, LlmUsage
from harness.domain.runs import EndedBy, Phase, verdict_of
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
from harness.errors import GraderUnavailable, ServiceUnavailable
from harness.home import RunFolder
from harness.runner.objects import AgentEnd
from harness.sandbox.networks import RunNetwork
from harness.sandbox.watch import LlmEvidence

RUN_ID = "20260101T000000_fake_0001"


def make_plan(folder: Path, timeout_s: int = 60, **more: Any) -> RunPlan:
    """A plan that refers to nothing real; its agent has a script to be taken up with."""
    return RunPlan(
        run_id=RUN_ID,
        created_at=now_utc(),
        agent=Agent(id="fake", path=folder, digest="a", config=AgentConfig(name="fake", resume="go_on.sh")),
        benchmark=Benchmark(id="fake", path=folder, digest="b", config=BenchmarkConfig(name="fake")),
        model=ModelRef(repo_id="m", revision="local", path=Path("models/m"), tree_hash="t", size_bytes=1),
        data=DataRef(train_path=Path("train/x"), eval_path=Path("eval/x"), eval_hash="e", train_items=1, eval_items=2),
        protocol=Protocol.STANDARD,
        limits=Limits(timeout_s=timeout_s),
        images={"agent": "i", "scorer": "s"},
        engine=EngineSpec(image="i", device="cpu"),
        **more,
    )


DRIVER = DriverLlm(provider="openai", url="http://x/v1", model="m", budget=LlmBudget(usd=1.0, tokens=500, requests=9))


def llm_call(number: int, status: int = 200, **detail: Any) -> LlmCall:
    """A call that ended as `detail` says; answered if it says nothing."""
    known = {"ended": "complete", "given_up": "", "is_billed": True, "request_bytes": 1000, "open_calls": 1}
    told = {"number": number, "run_id": RUN_ID, "at": now_utc(), "provider": "openai", "model": "m"}
    return LlmCall.model_validate({**told, "http_status": status, "detail": {**known, **detail}})


class FakeGateway:
    """A run's gateway, as the harness sees it; `is_away`: it does not answer until it is started again."""

    def __init__(self) -> None:
        self.rows: list[LlmCall] = []
        self.reached: list[Connection] = []
        self.told: list[LlmEvent] = []
        self.used = LlmUsage(run_id=RUN_ID, is_open=True)
        self.answering = Answering(is_known=False)
        self.is_away = False
        self.is_closed = False

    def tell(self, kind: str) -> None:
        event = LlmEvent(number=len(self.told) + 1, at=now_utc(), run_id=RUN_ID, kind=kind, detail="openai")
        self.told.append(event)

    def _answering(self) -> None:
        if self.is_away:
            raise ServiceUnavailable("the gateway does not answer")

    def calls(self, skip: int) -> tuple[LlmCall, ...]:
        self._answering()
        return tuple(self.rows[skip : skip + 2])

    def connections(self, skip: int) -> tuple[Connection, ...]:
        self._answering()
        return tuple(self.reached[skip : skip + 2])

    def events(self, after: int) -> tuple[LlmEvent, ...]:
        self._answering()
        return tuple(self.told[after:])

    def usage(self) -> LlmUsage:
        self._answering()
        return self.used

    def ask_again(self) -> Answering:
        self._answering()
        return self.answering

    def close_run(self) -> LlmUsage:
        self._answering()
        self.is_closed = True
        return self.used


class FakeGrader:
    """Keeps one run's state; `open_submissions` are scored one per poll once services are there."""

    def __init__(self, objects: FakeObjects) -> None:
        self.objects = objects
        self.calls: list[str] = []
        self.phases: list[Phase] = []
        self.status_now = RunStatus(run_id=RUN_ID, phase=Phase.PLANNED)
        self.has_cached_baseline = True
        self.baseline_error: str | None = None
        self.open_submissions = 0
        self.scored = 0
        self.is_known = True
        self.is_away = False
        # So often the services end when they are put to use.
        self.deaths_in_use = 0
        self.llm_calls: list[LlmCall] = []
        self.events: list[EventIn] = []
        self.closed_with: CloseRun | None = None
        self.finished_with: FinishRun | None = None

    def register(self, run: RegisterRun) -> RunStatus:
        self.calls.append("register")
        return self.status_now

    def find(self, run_id: str) -> RunStatus | None:
        return self.status_now if self.is_known else None

    def release(self, run_id: str) -> None:
        self.objects.calls.append("release")

    def reopen(self, run_id: str) -> RunStatus:
        self.calls.append("reopen")
        self.finished_with = None
        return self._set(verdict=None, ended_by=None, agent_ended_at=None, phase=Phase.PREPARING)

    def _set(self, **fields: object) -> RunStatus:
        self.status_now = self.status_now.model_copy(update=fields)
        return self.status_now

    def set_phase(self, run_id: str, phase: SetPhase) -> RunStatus:
        self.phases.append(phase.phase)
        return self._set(phase=phase.phase, owner=phase.owner)

    def ask_baseline(self, run_id: str) -> RunStatus:
        if self.has_cached_baseline:
            return self._set(baseline=_baseline(is_cached=True))
        return self._set(needs_services=True, baseline_error=self.baseline_error)

    def status(self, run_id: str) -> RunStatus:
        if self.is_away:
            raise GraderUnavailable("it does not answer")
        needs = self.open_submissions > 0 or (self.status_now.needs_services and self.status_now.baseline is None)
        if self.objects.services and needs:
            self._set(service_uses=self.status_now.service_uses + 1)
            if self.deaths_in_use:
                self.deaths_in_use -= 1
                self.objects.services = False
        if self.objects.services and self.status_now.needs_services and self.status_now.baseline is None:
            self._set(baseline=_baseline(is_cached=False))
        if self.objects.services and self.open_submissions:
            self.open_submissions -= 1
            self.scored += 1
        return self._set(open_submissions=self.open_submissions, needs_services=needs)

    def start_clock(self, run_id: str, clock: StartClock) -> RunStatus:
        self.calls.append("clock")
        known = self.status_now.started_at
        started_at = clock.started_at if known is None or clock.is_exact else known
        return self._set(started_at=started_at, deadline=clock.deadline)

    def add_event(self, run_id: str, event: EventIn) -> None:
        self.calls.append(f"event {event.kind}")
        self.events.append(event)

    def add_llm_calls(self, run_id: str, calls: LlmCalls) -> None:
        if self.is_away:
            raise GraderUnavailable("it does not answer")
        self.llm_calls += calls.calls

    def add_sample(self, run_id: str, sample: ResourceSampleIn) -> None:
        self.calls.append("sample")

    def finish(self, run_id: str, finish: FinishRun) -> RunStatus:
        if self.finished_with is None:
            self.finished_with = finish
        return self._set(ended_by=self.finished_with.ended_by, agent_ended_at=now_utc())

    def close(self, run_id: str, close: CloseRun) -> RunStatus:
        self.closed_with = close
        ended_by = self.finished_with.ended_by if self.finished_with else EndedBy.INFRASTRUCTURE
        verdict = verdict_of(
            has_scored=self.scored > 0, has_failed_evaluation=self.open_submissions > 0, ended_by=ended_by
        )
        return self._set(verdict=verdict, phase=Phase.ENDED)


class FakeObjects:
    """A container that ends after so many looks at it; every other object is a flag."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        self.folder.meta.mkdir(parents=True)
        self.calls: list[str] = []
        self.services = False
        self.ends_after = 1
        self.end = AgentEnd(EndedBy.FINISHED, 0, "")
        self.agent_started_at: datetime | None = None
        self.is_removed = False
        self.raises: dict[str, BaseException] = {}
        self.services_die = False
        self.failing_starts = 0
        self.ended_at: datetime | None = None
        self.quota_mode = "loop"
        self.gateway = FakeGateway()
        # The ends of the parts before the last, and how the gateway saw the last one.
        self.earlier: list[AgentEnd] = []
        self.saw: LlmEvidence | None = None

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.raises:
            raise self.raises.pop(name)

    def prepare(self) -> None:
        self._called("prepare")

    def ensure_network(self) -> RunNetwork:
        return RunNetwork(id="n", name="n", subnet="10.0.0.0/28")

    def find_agent(self) -> datetime | None:
        return self.agent_started_at

    def create_agent(self, time_limit_s: float) -> None:
        self._called(f"create {time_limit_s:.0f}")

    def start_agent(self) -> datetime:
        self._called("start")
        self.agent_started_at = now_utc()
        return self.agent_started_at

    def follow_log(self) -> None:
        self._called("follow")

    def start_gateway(self) -> None:
        self._called("start gateway")
        self.gateway.is_away = False
        self.folder.llm_calls.mkdir(parents=True, exist_ok=True)

    def remove_agent(self) -> None:
        self._called("remove agent")
        self.agent_started_at = None

    def wait_agent(
        self, timeout_s: float, deadline: datetime | None, llm: Callable[[], LlmEvidence]
    ) -> AgentEnd | None:
        self._called("wait")
        self.ends_after -= 1
        if self.ends_after > 0:
            return None
        self.saw = llm()
        return self.earlier.pop(0) if self.earlier else self.end

    def stop_agent(self, *, is_requested: bool) -> datetime | None:
        self._called("stop on request" if is_requested else "stop")
        self.ends_after = 0
        return self.ended_at

    def hand_over(self, grader: FakeGrader) -> None:
        self._called("hand over")

    def has_services(self) -> bool:
        return self.services and not self.services_die

    def start_services(self) -> None:
        self._called("start services")
        if self.failing_starts:
            self.failing_starts -= 1
            raise ServiceUnavailable("it was killed")
        self.services = not self.services_die

    def sample(self) -> ResourceSampleIn | None:
        return None

    def is_over_quota(self) -> bool:
        return False

    def attach_for_collection(self) -> bool:
        self._called("attach")
        return False

    def keep_record(self) -> None:
        self._called("keep record")

    def remove(self, *, keep_workspace: bool) -> None:
        self._called("remove" if not keep_workspace else "remove but the workspace")
        self.is_removed = True


def _baseline(*, is_cached: bool) -> BaselineView:
    return BaselineView(feedback_pct=10.0, final_pct=11.0, final_stderr_pct=1.0, is_cached=is_cached)


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)
