"""What one run's worker thread does: check that a model loads, score the baseline, score submissions in order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from loguru import logger

from harness.domain.items import Item
from harness.errors import (
    ErrorClass,
    EvaluationFailed,
    HarnessError,
    Inadmissible,
    LoadFailed,
    NoGpuMemory,
    ServiceUnavailable,
    TooSlow,
)
from harness.grader.evaluate import Services, Subject, evaluate, planned_engine
from harness.grader.gpu_memory import with_memory
from harness.grader.items import hidden_items
from harness.grader.jobs import BaselineJob, Job, SubmissionJob, next_job, requeue_orphans
from harness.grader.limits import (
    CHECK_LIMIT_S,
    CONTROL_FLOOR_S,
    EVALUATION_FLOOR_S,
    limit_s,
    load_limit_s,
    measured_pace,
    slowest_pace,
)
from harness.grader.prompts import build_prompt
from harness.grader.registry import ActiveRun
from harness.grader.workshop import Stopped, Workshop, cut_off, own_trouble, run_ended
from harness.inference.wire import GenerateRequest, LoadRequest, Sampling
from harness.store.models import NewEvaluation
from harness.store.records_evaluations import find_evaluation, save_evaluation
from harness.store.records_runs import get_run

MAX_ATTEMPTS = 2
POLL_S = (0.1, 0.25, 0.5, 1.0)

T = TypeVar("T")


@dataclass(frozen=True)
class LoadCheck:
    """`POST /validate`: whether the engine can load this folder (relative to the home) and say one token."""

    folder: Path
    result: Future[float]


class RunWorker:
    """The work of one run, a step at a time; only one thread calls it."""

    def __init__(self, shop: Workshop, run: ActiveRun, checks: deque[LoadCheck]) -> None:
        self._shop = shop
        self._run = run
        self._checks = checks
        self._record = get_run(shop.db, run.run_id)
        self._failures: Counter[str] = Counter()
        self._items: Sequence[Item] = ()
        # A worker before this one may have left it so.
        self._is_engine_awake = True
        requeue_orphans(shop.db, run.run_id)

    def step(self) -> bool:
        """Does the next piece of work; False if there is none.

        Raises:
            Stopped: the process or the run ends.
        """
        if self._checks:
            self._check(self._checks.popleft())
            return True
        job = next_job(self._shop.db, self._run, self._shop.base_of(self._run))
        if job is not None:
            self._score(job)
            self._shop.refresh_queue_length(self._run)
        else:
            self._rest()
        return job is not None

    def _rest(self) -> None:
        """Nothing is left to do: the agent may have the GPU."""
        if not self._is_engine_awake:
            return
        self._is_engine_awake = False
        try:
            self._shop.connect(self._run).inference.sleep()
        except HarnessError as error:
            # One that is not there holds nothing; one that is in trouble shows it at the next load.
            logger.bind(run=self._run.run_id).debug("the engine was not put to sleep: {}", error)

    def _score(self, job: Job) -> None:
        is_begun = False
        try:
            is_anew = self._is_anew(job)
            known = None if is_anew else find_evaluation(self._shop.db, self._record.evaluation_key(job.tree_hash))
            services = self._services() if known is None else None
            job.begin()
            is_begun = True
            if services is None:
                evaluation_id = known.id if known else 0
            else:
                evaluation_id = save_evaluation(self._shop.db, self._evaluated(job, services), is_anew=is_anew).id
            job.done(evaluation_id, is_cached=known is not None)
            logger.bind(run=self._run.run_id).info("{} scored, cached: {}", job.name, known is not None)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of a job: whatever broke, the job must not stay `scoring`
            self._give_up(job, error, is_begun=is_begun)
        if isinstance(job, SubmissionJob):
            self._shop.waiters.wake(job.record.id)

    def _is_anew(self, job: Job) -> bool:
        """Whether a stored evaluation must not stand in for `job`: that is the very thing to be graded anew."""
        grading = self._run.plan.grading
        return grading is not None and grading.is_anew and isinstance(job, SubmissionJob) == grading.has_base

    def _give_up(self, job: Job, error: Exception, *, is_begun: bool) -> None:
        log = logger.bind(run=self._run.run_id).opt(exception=None if isinstance(error, HarnessError) else error)
        log.warning("{} was not scored: {}", job.name, error)
        self._failures[job.name] += 1
        if isinstance(error, LoadFailed):
            job.fail(ErrorClass.LOAD_FAILED, str(error))
        elif isinstance(error, NoGpuMemory) and isinstance(job, SubmissionJob):
            # Only an agent's processes can hold memory while it runs, and it has been told that they must not.
            job.refuse(ErrorClass.NO_GPU_MEMORY, error.what)
        elif self._failures[job.name] < MAX_ATTEMPTS:
            if is_begun:
                job.again()
        else:
            del self._failures[job.name]
            job.fail(self._blamed(job, error), str(error))

    def _evaluated(self, job: Job, services: Services, *, is_control: bool = False) -> NewEvaluation:
        """The evaluation of `job`; as a control, of one batch only and with little time."""
        items = self._hidden()[: self._run.plan.engine.batch_size] if is_control else self._hidden()
        prompt = self._run.plan.benchmark.config.prompt_spec()
        within_s = limit_s(
            n_tokens=len(items) * prompt.samples * prompt.max_tokens,
            pace=measured_pace(self._shop.db, self._run.run_id, prompt.samples),
            floor_s=CONTROL_FLOOR_S if is_control else EVALUATION_FLOOR_S,
            slowest=slowest_pace(self._run.plan.engine),
        )
        key = self._record.evaluation_key(job.tree_hash)
        subject = Subject(self._run.plan, key, self._seen_by_services(job.folder), within_s)
        return self._with_memory(lambda: evaluate(subject, items, services))

    def _with_memory(self, work: Callable[[], T]) -> T:
        return with_memory(work, self._shop.memory_wait_s, self._pause)

    def _pause(self, seconds: float) -> None:
        if self._shop.stopping.wait(seconds) or self._run.closed.is_set():
            raise Stopped

    def _blamed(self, job: Job, error: Exception) -> ErrorClass:
        """Whose doing it is that `job` has no score: the agent's, if the same services can score the base model.

        Else weights that never end, or that end a service, would make a run void, which is left out of means.

        Raises:
            Stopped: the process or the run ends.
        """
        # What broke in the grader itself says nothing about the checkpoint.
        if not isinstance(job, SubmissionJob) or not isinstance(error, ServiceUnavailable | EvaluationFailed):
            return ErrorClass.EVALUATION_FAILED
        log = logger.bind(run=self._run.run_id)
        base = BaselineJob(self._shop.db, self._run.run_id, self._run.plan)
        try:
            self._evaluated(base, self._services(), is_control=True)
        except Stopped:
            raise
        except Exception as trouble:  # noqa: BLE001 - whatever breaks the control, it is not the agent's doing
            log.warning("nor could the base model be scored, so {} is not to blame: {}", job.name, trouble)
            return ErrorClass.EVALUATION_FAILED
        log.warning("the base model could be scored, so {} is to blame", job.name)
        return ErrorClass.TOO_SLOW if isinstance(error, TooSlow) else ErrorClass.UNSCORABLE

    def _check(self, check: LoadCheck) -> None:
        if not check.result.set_running_or_notify_cancel():
            return
        try:
            if self._run.is_over:
                raise run_ended()
            check.result.set_result(self._checked_load_s(check.folder))
        except Stopped:
            check.result.set_exception(cut_off(self._run))
            raise
        except HarnessError as error:
            logger.bind(run=self._run.run_id).warning("a model was not validated: {}", error)
            check.result.set_exception(error)
        except Exception:
            # Whoever asked must not wait for ever.
            check.result.set_exception(own_trouble())
            raise

    def _checked_load_s(self, folder: Path) -> float:
        """Seconds that the engine took to load `folder`; what ends the engine twice is tried with the base model.

        Raises:
            Inadmissible: the engine broke on this checkpoint, and did not on the base model.
            HarnessError: LoadFailed, or what broke.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return self._say_one_token(folder)
            except ServiceUnavailable as error:
                if attempt == MAX_ATTEMPTS:
                    self._blame(folder, error)
        raise AssertionError("the last attempt raises")

    def _blame(self, folder: Path, error: ServiceUnavailable) -> NoReturn:
        """Says whose doing it is that the engine broke on `folder`."""
        try:
            self._say_one_token(self._run.plan.model.path)
        except HarnessError:
            raise error from None
        raise Inadmissible(
            "the engine broke off on this checkpoint twice; the base model could be loaded and asked in between",
            "Load it yourself with transformers from its folder, and generate with it.",
            error_class=ErrorClass.UNSCORABLE,
        ) from error

    def _say_one_token(self, folder: Path) -> float:
        """Seconds of the load."""
        services = self._services()
        within_s = load_limit_s(self._run.plan.model.size_bytes)
        request = LoadRequest(path=str(self._seen_by_services(folder)), limit_s=within_s)
        loaded = self._with_memory(lambda: services.inference.load(request))
        prompts = (build_prompt(self._run.plan.benchmark.config.prompt_spec(), "1 + 1 ="),)
        one_token = Sampling(max_tokens=1)
        services.inference.generate(GenerateRequest(prompts=prompts, sampling=one_token, limit_s=CHECK_LIMIT_S))
        return loaded.load_seconds

    def _services(self) -> Services:
        """The run's services, once both answer; the harness starts them when it sees that they are needed."""
        services = self._shop.connect(self._run)
        attempt = 0
        while not self._are_up(services):
            self._run.needs_services = True
            self._pause(POLL_S[min(attempt, len(POLL_S) - 1)])
            attempt += 1
        self._run.needs_services = False
        self._run.service_uses += 1
        self._is_engine_awake = True
        return services

    def _are_up(self, services: Services) -> bool:
        try:
            # Not `is_ready`: an engine that cannot be built must end the wait, and `info` says so.
            planned_engine(self._run.plan, services.inference)
        except ServiceUnavailable:
            return False
        return services.scorer.is_ready()

    def _hidden(self) -> Sequence[Item]:
        if not self._items:
            self._items = hidden_items(self._shop.home, self._run.plan)
        return self._items

    def _seen_by_services(self, folder: Path) -> Path:
        return self._shop.service_root / folder
