"""Starting a run, taking one up again, stopping one: everything before and around the trial itself."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from harness.domain.admin import RegisterRun, RunStatus
from harness.domain.llm import DriverLlm
from harness.domain.runs import EndedBy, Owner, Phase, RunKind
from harness.domain.specs import DataRef, ModelRef, RunPlan
from harness.errors import Interrupted, PrerequisiteError, UnknownRun, UsageError
from harness.home import RunFolder
from harness.runner.attempt import Attempt
from harness.runner.data import prepare_data, verify_data
from harness.runner.data_sources import Fetch
from harness.runner.driver import is_unlisted, require_key, settled
from harness.runner.files import write_whole
from harness.runner.grader_client import GraderClient
from harness.runner.grading import GradingTrial
from harness.runner.hold import held, is_held
from harness.runner.host import Host
from harness.runner.keys import is_open_to_others
from harness.runner.models import prepare_model, verify_model
from harness.runner.objects import RunObjects
from harness.runner.orphans import GRADE_FILE, PLAN_FILE, is_untidy, remove_orphans, tend_orphans, tidy
from harness.runner.plan import RunDraft, complete, draft
from harness.runner.preparation import Preparation, Stored
from harness.runner.progress import Reporter, Sink
from harness.runner.request import RunRequest
from harness.runner.tokens import kept_token
from harness.runner.trial import ORDER, Trial
from harness.sandbox.owner import boot_id, current_owner, is_alive

DRAFT_FILE = "draft.json"


class Launcher:
    """Runs on one host: `host` is its Docker and its home, `sink` where progress goes."""

    def __init__(self, host: Host, sink: Sink) -> None:
        self._host = host
        self._grader = GraderClient(host.home, revive=host.revive_grader)
        self._reporter = Reporter("", sink, datetime.now(UTC))

    def draft(self, request: RunRequest) -> RunDraft:
        """What `request` means here, with nothing started."""
        return draft(request, self._host.settings)

    def what_lacks(self, plan_draft: RunDraft) -> str:
        """Which images or key it would be refused for, and what to do about it; empty where nothing is missing."""
        try:
            self._host.require_product_images(plan_draft)
            if plan_draft.llm is not None:
                require_key(plan_draft.llm, self._host.settings)
        except PrerequisiteError as error:
            return f"{error.what}. {error.fix}"
        return ""

    def start(self, plan_draft: RunDraft) -> RunStatus:
        """Prepares, registers and drives a new run to its verdict.

        Raises:
            Interrupted: a person stopped it.
            HarnessError: it could not be started, or was closed as void.
        """
        if plan_draft.llm is not None:
            require_key(plan_draft.llm, self._host.settings)
        self._host.require_images(plan_draft)
        folder = self._host.home.run(plan_draft.run_id)
        folder.path.mkdir(parents=True)
        with held(folder), _interruptible(plan_draft.run_id):
            write_whole(folder.path / DRAFT_FILE, plan_draft.model_dump_json(indent=1))
            try:
                return self._begin(plan_draft, folder)
            except Exception:
                # Without a plan it was never a run: a refused request is not to be `latest`.
                if not (folder.path / PLAN_FILE).is_file():
                    shutil.rmtree(folder.path)
                raise

    def _begin(self, plan_draft: RunDraft, folder: RunFolder) -> RunStatus:
        # First: a wrong key or URL is told before gigabytes are fetched.
        plan = self._plan(plan_draft, folder, self._driver(plan_draft))
        self._host.require_grader(plan.images["grader"], self._grader)
        tend_orphans(self._host.client, self._host.home, self._grader, self._say)
        return self._drive(plan, Phase.PREPARING)

    def grade(self, plan_draft: RunDraft) -> RunStatus:
        """Scores the checkpoint of a grading's draft, to its verdict.

        Raises:
            Interrupted: by a person.
            HarnessError: it could not be scored, and not because of what it is.
        """
        self._host.require_images(plan_draft)
        folder = self._host.home.run(plan_draft.run_id)
        folder.path.mkdir(parents=True)
        with held(folder):
            plan = self._registered_grading(plan_draft, folder)
            reporter = Reporter(plan.run_id, self._reporter.sink, datetime.now(UTC))
            return GradingTrial(plan, self._grader, self._host.objects(plan, ""), reporter).run()

    def _registered_grading(self, plan_draft: RunDraft, folder: RunFolder) -> RunPlan:
        """Its plan, known to the grader; what ends before that leaves nothing but what was fetched."""
        marker = folder.path / GRADE_FILE
        try:
            write_whole(marker, plan_draft.model_dump_json(indent=1))
            plan = complete(plan_draft, *self.prepare(plan_draft))
            self._host.require_grader(plan.images["grader"], self._grader)
            tend_orphans(self._host.client, self._host.home, self._grader, self._say)
            # Without a token and a network: nobody but the harness asks for anything of it.
            self._grader.register(RegisterRun(plan=plan, owner=current_owner(), token_sha256="", subnet=""))
            marker.unlink()
        except BaseException as error:
            shutil.rmtree(folder.path, ignore_errors=True)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted("interrupted before anything was scored", "What was fetched stays.") from error
            raise
        return plan

    def resume(self, run_id: str) -> RunStatus:
        """Takes up a run whose harness died or which a person stopped.

        One that ended while its harness died is tidied up.

        Raises:
            UsageError: it has ended, or another harness drives it.
            PrerequisiteError: the key of its LLM is gone, or its server is away; a stopped run stays as it was.
            Interrupted: a person stopped it.
        """
        folder = self._host.home.run(run_id)
        if not folder.path.is_dir():
            raise UnknownRun(
                f"run {run_id} has no folder under {folder.path.parent}",
                "It was imported or cleaned: `harness show` works, but it cannot be taken up.",
            )
        with held(folder), _interruptible(run_id):
            return self._take_up(run_id, folder)

    def _take_up(self, run_id: str, folder: RunFolder) -> RunStatus:
        if not (folder.path / PLAN_FILE).is_file():
            return self._resume_draft(folder)
        plan = RunPlan.model_validate_json((folder.path / PLAN_FILE).read_text())
        self._host.require_grader(plan.images["grader"], self._grader)
        remove_orphans(self._host.client, self._host.home, self._grader, self._say)
        status = self._grader.find(run_id)
        if status is None:
            return self._drive(plan, Phase.PREPARING)
        if is_untidy(folder, status):
            tidy(self._host.client, self._host.home, run_id)
            return status
        self._check_resumable(status)
        if status.verdict is None and Attempt.load(folder).stopped_at is not None:
            status = self._trial(plan).stop(status.phase)
        if status.verdict is None:
            return self._drive(plan, status.phase)
        if not folder.image.exists() and not folder.workspace.exists():
            raise UsageError(f"the workspace of run {run_id} is gone", f"See `harness show {run_id}`.")
        self._require_driver(plan, folder)
        # A stop that was broken off after its verdict leaves the old agent's container, which is not to be adopted.
        self._host.objects(plan, "").remove(keep_workspace=True)
        attempt = Attempt.load(folder)
        attempt.next(_used_s(plan, status, attempt)).save(folder)
        self._grader.reopen(run_id)
        return self._drive(plan, Phase.PREPARING)

    def _require_driver(self, plan: RunPlan, folder: RunFolder) -> None:
        """Before anything of a stopped run is touched: one whose LLM cannot be had would end as void."""
        if plan.llm is None:
            return
        plan_draft = RunDraft.model_validate_json((folder.path / DRAFT_FILE).read_text())
        assert plan_draft.llm is not None
        # The model of the run, whatever else the server lists by now.
        asked = plan_draft.llm.model_copy(update={"names": (plan.llm.model,), "unlisted": plan.llm.model})
        self._driver(plan_draft.model_copy(update={"llm": asked}))

    def _resume_draft(self, folder: RunFolder) -> RunStatus:
        path = folder.path / DRAFT_FILE
        if not path.is_file():
            raise UnknownRun(
                f"{folder.path} holds no run that could be taken up",
                "`harness list` shows the runs there are; a grading is not taken up but started anew.",
            )
        plan_draft = RunDraft.model_validate_json(path.read_text())
        self._host.require_images(plan_draft)
        return self._begin(plan_draft, folder)

    def _check_resumable(self, status: RunStatus) -> None:
        if status.verdict is not None and status.ended_by is not EndedBy.STOPPED:
            raise UsageError(
                f"run {status.run_id} has ended: {status.verdict.value}", f"See `harness show {status.run_id}`."
            )

    def prepare(self, plan_draft: RunDraft) -> tuple[ModelRef, DataRef]:
        """Base model and data in the store: fetched where they are not there yet, verified, read-only."""

        def fetch(call: Fetch) -> None:
            self._host.run_data_script(plan_draft, call)

        settings, meter = self._host.settings, self._reporter.meter
        model = prepare_model(plan_draft.model, plan_draft.benchmark, settings, self._say, meter)
        data = prepare_data(plan_draft.benchmark, plan_draft.request.data_dir, self._host.home, fetch, self._say)
        return model, data

    def prepare_ahead(self, plan_draft: RunDraft) -> Preparation:
        """The same ahead of a run, with what was there before read again and verified."""
        home, started = self._host.home, time.monotonic()
        before = Stored.of(home)
        model, data = self.prepare(plan_draft)
        if before.has_model(model):
            verify_model(model, home, self._reporter.meter)
        if before.has_data(data):
            verify_data(data, home)
        return before.compared(model, data, home, time.monotonic() - started)

    def _driver(self, plan_draft: RunDraft) -> DriverLlm | None:
        """The LLM that drives the run's agent, once its server has taken the key and told its models."""
        if plan_draft.llm is None:
            return None
        if is_open_to_others(plan_draft.llm.key_from):
            self._say(f"other users of this machine can read {plan_draft.llm.key_from}: chmod 600")
        answer = self._host.ask_driver(plan_draft)
        llm = settled(plan_draft.llm, answer)
        if is_unlisted(llm, answer):
            self._say(f"{llm.url} does not list {llm.model}; it is taken all the same")
        return llm

    def _plan(self, plan_draft: RunDraft, folder: RunFolder, llm: DriverLlm | None) -> RunPlan:
        plan = complete(plan_draft, *self.prepare(plan_draft), llm)
        # The plan's presence says that everything before it is there: written last.
        write_whole(folder.path / PLAN_FILE, plan.model_dump_json(indent=1))
        return plan

    def _drive(self, plan: RunPlan, phase: Phase) -> RunStatus:
        if ORDER.index(phase) < ORDER.index(Phase.AGENT):
            self._host.require_isolation(plan)
        token = kept_token(self._host.home.run(plan.run_id).token)
        objects = self._host.objects(plan, token)
        registration = RegisterRun(
            plan=plan,
            owner=current_owner(),
            token_sha256=hashlib.sha256(token.encode()).hexdigest(),
            subnet=objects.ensure_network().subnet,
        )
        try:
            self._grader.register(registration)
        except BaseException:
            if phase is Phase.PREPARING:
                objects.remove(keep_workspace=True)
            raise
        return self._trial(plan, objects).run(max(phase, Phase.PREPARING, key=ORDER.index))

    def _trial(self, plan: RunPlan, objects: RunObjects | None = None) -> Trial:
        reporter = Reporter(plan.run_id, self._reporter.sink, datetime.now(UTC))
        return Trial(plan, self._grader, objects or self._host.objects(plan, ""), reporter)

    def _say(self, message: str) -> None:
        self._reporter.say(Phase.PREPARING, message)

    def stop(self, run_id: str) -> RunKind:
        """Asks the harness that drives a run to stop it; stops a run that nobody drives. Returns what it is.

        Raises:
            UsageError: it has ended, or was never started.
        """
        status = self._grader.status(run_id)
        if status.verdict is not None:
            raise UsageError(f"run {run_id} has ended: {status.verdict.value}", f"See `harness show {run_id}`.")
        folder = self._host.home.run(run_id)
        if is_held(folder):
            _ask_to_stop(run_id, status.owner)
            return status.kind
        if not (folder.path / PLAN_FILE).is_file():
            raise UnknownRun(f"{folder.path} holds no run", "The next `harness run` closes it.")
        plan = RunPlan.model_validate_json((folder.path / PLAN_FILE).read_text())
        with held(folder), _interruptible(run_id):
            self._trial(plan).stop(status.phase)
        return status.kind


@contextmanager
def _interruptible(run_id: str) -> Iterator[None]:
    """Ctrl-C outside of a trial, or in the middle of its stop: what exists is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(f"run {run_id} was interrupted", f"Take it up with `harness resume {run_id}`.") from error


def _ask_to_stop(run_id: str, owner: Owner | None) -> None:
    if owner is None or not is_alive(owner):
        raise UsageError(f"run {run_id} is just being taken up", "Try again in a moment.")
    if owner.boot_id != boot_id():
        # A process number of another machine, or of another boot, is somebody else's here.
        raise UsageError(f"run {run_id} was driven on {owner.host}", "Stop it there, or try again in a moment.")
    try:
        # Not SIGINT: a process that a shell put into the background ignores it.
        os.kill(owner.pid, signal.SIGTERM)
    except PermissionError as error:
        raise PrerequisiteError(f"process {owner.pid} belongs to another user", "Stop it as that user.") from error


def _used_s(plan: RunPlan, status: RunStatus, attempt: Attempt) -> float:
    """Agent time that a stopped run has used: its deadline moves with each attempt, so count back from there."""
    ended_at = attempt.stopped_at or status.agent_ended_at
    if status.deadline is None or ended_at is None or not attempt.is_started:
        return attempt.used_s
    left_s = (status.deadline - ended_at).total_seconds()
    return max(0.0, plan.limits.timeout_s - max(0.0, left_s))
