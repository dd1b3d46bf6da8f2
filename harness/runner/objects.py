"""Everything on the host that belongs to one run: workspace, network, agent, services; found again after a death."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module

from harness.domain.admin import ResourceSampleIn
from harness.domain.runs import EndedBy
from harness.domain.specs import RunPlan
from harness.errors import InfrastructureError
from harness.home import RunFolder
from harness.runner.agent_spec import Reach, agent_spec
from harness.runner.attempt import Attempt
from harness.runner.files import write_whole
from harness.runner.gateway_client import GatewayClient
from harness.runner.grader_client import GraderClient
from harness.runner.run_gateway import RunGateway
from harness.runner.run_services import RunServices
from harness.runner.where import Where
from harness.runner.workspace import lay_out
from harness.sandbox import reaper, watch
from harness.sandbox.agent import AgentContainerSpec, create_agent, start_agent
from harness.sandbox.containers import ZONE_AGENT, find_container, remove_container, stop_container
from harness.sandbox.disk import Quota, QuotaMode
from harness.sandbox.engine import EngineInfo
from harness.sandbox.gpus import gpu_use
from harness.sandbox.hardening import agent_user
from harness.sandbox.log_stream import LogStream
from harness.sandbox.networks import RunNetwork, attach_grader, create_run_network, find_run_network
from harness.sandbox.resources import ResourceMeter

STOP_GRACE_S = 10
# Each look at a watched workspace goes through every file.
WATCH_EVERY_S = 5.0
# A container whose own timer ended it did so within this of the deadline.
DEADLINE_SLACK = timedelta(seconds=1)
ENGINE_FILE = "engine.json"
# Brings SQLAlchemy with it: imported while Docker makes the container, which takes as long.
RECORD_MODULE = "harness.runner.record"


@dataclass(frozen=True)
class AgentEnd:
    """How the agent's part ended, as far as its container tells."""

    ended_by: EndedBy
    exit_code: int | None
    detail: str


class RunObjects:
    """The objects of one run. Every method may be called again after a death: it finds what is there already."""

    def __init__(self, plan: RunPlan, token: str, where: Where) -> None:
        self._plan = plan
        self._token = token
        self._where = where
        self._client, self._home = where.client, where.home
        self.folder: RunFolder = where.home.run(plan.run_id)
        uid, gid = agent_user()
        self._quota = Quota(
            mode=where.quota_mode, folder=self.folder.path, size_mb=plan.limits.disk_mb, uid=uid, gid=gid
        )
        self._network: RunNetwork | None = None
        self._agent: str | None = None
        self._log: LogStream | None = None
        self._meter: ResourceMeter | None = None
        self._pids_limit_hits = 0
        self._is_stopped = False
        self._watched_at = 0.0
        self._services = RunServices(plan, where)
        self._gateway = RunGateway(plan, where) if plan.has_gateway else None

    @property
    def quota_mode(self) -> str:
        """How the size limit of the workspace is held."""
        return self._quota.mode.value

    def ensure_network(self) -> RunNetwork:
        """The run's network, made if it is not there."""
        if self._network is None:
            found = find_run_network(self._client, self._home, self._plan.run_id)
            self._network = found or create_run_network(
                self._client, self._home, self._plan.run_id, self._where.network_range
            )
        return self._network

    @property
    def has_gateway(self) -> bool:
        """Whether the run has a gateway: without one its agent must not be started."""
        return self._gateway is not None

    @property
    def gateway(self) -> GatewayClient:
        """What the harness asks of the run's gateway."""
        assert self._gateway is not None
        return self._gateway.client

    def start_gateway(self) -> None:
        """The run's gateway answers when this returns; one that is there goes on. Does nothing in a run without.

        Raises:
            ServiceUnavailable: it does not come up; its last words are in the message.
            PrerequisiteError: the key of the run's LLM is not there any more.
        """
        if self._gateway is not None:
            self._gateway.start(self.ensure_network())

    def prepare(self) -> None:
        """Workspace, task files, and the grader on the run's network."""
        network = self.ensure_network()
        with ThreadPoolExecutor(1) as beside:
            attached = beside.submit(attach_grader, self._client, self._home, network)
            self._prepare_workspace()
        attached.result()

    def _prepare_workspace(self) -> None:
        if self.folder.image.exists() or (self._quota.mode is QuotaMode.WATCH and self.folder.workspace.exists()):
            self._quota.attach()
        else:
            self._quota.create()
        if self.find_agent() is None:
            lay_out(self._plan, self._home, self._quota.uid, self._quota.gid)

    def find_agent(self) -> datetime | None:
        """When the run's agent container was started; None if there is none that ever was."""
        container = find_container(self._client, self._home, self._plan.run_id, ZONE_AGENT)
        if container is None:
            return None
        started_at = watch.started_at(self._client, container)
        if started_at is None:
            # A death between create and start: this attempt has used no time, and is made anew.
            Attempt.load(self.folder).unstarted().save(self.folder)
            remove_container(self._client, container)
            return None
        self._agent = container
        return started_at

    def create_agent(self, time_limit_s: float) -> None:
        """A created, not yet started agent container; the log of an attempt before it is kept beside the new one."""
        if self.folder.agent_log.exists():
            number = len(list(self.folder.path.glob("agent.*.log"))) + 1
            self.folder.agent_log.rename(self.folder.agent_log.with_name(f"agent.{number}.log"))
        write_whole(self.folder.path / ENGINE_FILE, self._where.engine.model_dump_json())
        threading.Thread(target=import_module, args=(RECORD_MODULE,), daemon=True).start()
        self._agent = create_agent(self._client, self._spec(time_limit_s))

    def start_agent(self) -> datetime:
        """Starts the container that was created; returns when its process began."""
        return start_agent(self._client, self._container())

    def follow_log(self) -> None:
        """Copies the agent's output to `agent.log` from now on, from its beginning."""
        self._log = LogStream(self._container(), self.folder.agent_log, self._plan.limits.log_mb)
        self._log.start()
        self._meter = ResourceMeter(self._client, self._container())

    def remove_agent(self) -> None:
        """Removes the container of a part that has ended; what it has written and said stays."""
        remove_container(self._client, self._container())
        self._agent = None

    def wait_agent(
        self, timeout_s: float, deadline: datetime | None, llm: Callable[[], watch.LlmEvidence]
    ) -> AgentEnd | None:
        """How the agent ended, `llm` being asked about its driver LLM; None if it still runs after `timeout_s`."""
        container = self._container()
        state = watch.wait_exit(self._client, container, timeout_s)
        if state is None:
            self._note_limits()
            return None
        if self._log is not None:
            self._log.stop()
        is_clean = state.exit_code == 0 and not state.is_out_of_memory
        ending = watch.classify(
            watch.Evidence(
                exit=state,
                # Asking for events takes a second: only where there is something to explain.
                oom_events=0 if is_clean else watch.oom_events(self._client, container, state.started_at),
                is_disk_full=self._quota.is_full(),
                pids_limit_hits=self._pids_limit_hits,
                is_log_capped=self._log is not None and self._log.is_capped,
                has_deadline_passed=deadline is not None and state.finished_at >= deadline - DEADLINE_SLACK,
                is_stop_requested=self._is_stopped,
                has_engine_restarted=watch.has_restarted(self._client, self._engine_then()),
                llm=llm(),
            )
        )
        return AgentEnd(ending.ended_by, state.exit_code, ending.detail)

    def _note_limits(self) -> None:
        """What only the container's cgroup knows, which is gone with its last process."""
        if self._meter is not None:
            self._pids_limit_hits = max(self._pids_limit_hits, self._meter.pids_limit_hits())

    def stop_agent(self, *, is_requested: bool) -> datetime | None:
        """Ends the agent's container, `is_requested` by a person or by the clock; when it ended, None without one."""
        self._is_stopped = is_requested
        container = self._agent or find_container(self._client, self._home, self._plan.run_id, ZONE_AGENT)
        if container is not None:
            stop_container(self._client, container, STOP_GRACE_S)
        return None if container is None else watch.ended_at(self._client, container)

    def hand_over(self, grader: GraderClient) -> None:
        """Puts a grader that is new on the run's network, and gives it a descriptor of the workspace.

        Raises:
            GraderUnavailable: it is going away again.
        """
        attach_grader(self._client, self._home, self.ensure_network())
        grader.hand_over(self._plan.run_id, self.folder.workspace)

    def has_services(self) -> bool:
        """Whether all services of the run are up."""
        return self._services.are_up()

    def start_services(self) -> None:
        """Starts them anew. Raises: see `RunServices.start`."""
        self._services.start()

    def sample(self) -> ResourceSampleIn | None:
        """What the agent uses now; None where that cannot be read."""
        use = self._meter.sample() if self._meter else None
        if use is None:
            return None
        gpus = gpu_use(self._plan.gpus)
        return ResourceSampleIn(
            cpu_pct=use.cpu_pct,
            memory_mb=use.memory_mb,
            disk_mb=self._quota.usage().used_bytes / 1e6,
            pids=use.pids,
            gpu_memory_mb=gpus.memory_mb if gpus else None,
            gpu_pct=gpus.busy_pct if gpus else None,
        )

    def is_over_quota(self) -> bool:
        """Whether a watched workspace has outgrown its limit (a file system of its own cannot)."""
        if self._quota.mode is not QuotaMode.WATCH or time.monotonic() < self._watched_at + WATCH_EVERY_S:
            return False
        full = self._quota.is_full()
        # Counted from the end of a look: a slow one must not take all the time.
        self._watched_at = time.monotonic()
        return full

    def attach_for_collection(self) -> bool:
        """Whether there is a workspace to collect from; it is reachable afterwards and nobody writes to it."""
        agent = find_container(self._client, self._home, self._plan.run_id, ZONE_AGENT)
        if agent is not None and watch.exit_state(self._client, agent) is None:
            stop_container(self._client, agent, STOP_GRACE_S)
        if not self.folder.image.exists() and not self.folder.workspace.exists():
            return False
        self._quota.attach()
        return True

    def keep_record(self) -> None:
        """The run's rows as files in its folder."""
        from harness.runner.record import keep_record

        keep_record(self._home, self._plan.run_id)

    def remove(self, *, keep_workspace: bool) -> None:
        """Removes all that was started; the workspace's content stays on disk if it is to be resumed."""
        if self._log is not None:
            self._log.stop()
        if self._gateway is not None:
            self._gateway.stop()
        self._services.keep_last_words()
        reaper.remove_run_objects(self._client, self._home, self._plan.run_id)
        if not keep_workspace:
            self.folder.llm_token.unlink(missing_ok=True)
            self._quota.remove()

    def _container(self) -> str:
        if self._agent is None:
            self._agent = find_container(self._client, self._home, self._plan.run_id, ZONE_AGENT)
        if self._agent is None:
            raise InfrastructureError(f"the agent's container of {self._plan.run_id} has disappeared")
        return self._agent

    def _engine_then(self) -> EngineInfo:
        path = self.folder.path / ENGINE_FILE
        return EngineInfo.model_validate_json(path.read_text()) if path.is_file() else self._where.engine

    def _spec(self, time_limit_s: float) -> AgentContainerSpec:
        reach = Reach(network=self.ensure_network(), token=self._token)
        if self._gateway is not None:
            reach = replace(reach, llm=self._gateway.agent_llm(), proxy_url=self._gateway.proxy_url())
        return agent_spec(self._plan, self._where, self._quota, reach, time_limit_s)
