"""The services that score a run's submissions: inference, scorer, and the executor where models write programs."""

from __future__ import annotations

from harness.domain.specs import RunPlan
from harness.runner.eval_modes import runs_programs
from harness.runner.where import Where
from harness.sandbox.containers import ZONE_EXECUTOR, ZONE_INFERENCE, ZONE_SCORER, find_container
from harness.sandbox.hardening import Isolation
from harness.sandbox.last_words import last_words
from harness.sandbox.owner import current_owner
from harness.sandbox.services import (
    Service,
    executor_service,
    inference_memory_mb,
    inference_service,
    scorer_service,
    start_services,
    stop_services,
)
from harness.sandbox.watch import is_running

START_TIMEOUT_S = 120.0
LOG_NAME = "services.log"


class RunServices:
    """The services of one run. Every method may be called again after a death."""

    def __init__(self, plan: RunPlan, where: Where) -> None:
        self._plan = plan
        self._where = where
        self._client, self._home = where.client, where.home
        self._has_executor = runs_programs(plan.benchmark)

    def are_up(self) -> bool:
        """Whether all of them are; a death can leave one of them, or one that was never started."""
        zones = (ZONE_INFERENCE, ZONE_SCORER, *([ZONE_EXECUTOR] if self._has_executor else []))
        found = [find_container(self._client, self._home, self._plan.run_id, zone) for zone in zones]
        return all(container is not None and is_running(self._client, container) for container in found)

    def start(self) -> None:
        """Starts all of them anew.

        Raises:
            ServiceUnavailable: one of them does not come up; its last words are in the message.
        """
        self.keep_last_words()
        stop_services(self._client, self._home, self._plan.run_id)
        start_services(self._client, self._home, self._services(), START_TIMEOUT_S)

    def keep_last_words(self) -> None:
        """Of those that ended by themselves, before their containers go."""
        words = last_words(self._client, self._home, self._plan.run_id)
        if words:
            with (self._home.run(self._plan.run_id).path / LOG_NAME).open("a", encoding="utf-8") as log:
                log.write(words)

    def _services(self) -> list[Service]:
        plan, home, owner = self._plan, self._home, current_owner()
        run_id, images, benchmark = plan.run_id, plan.images, plan.benchmark.path
        memory_mb = inference_memory_mb(plan.model.size_bytes, has_gpus=bool(plan.gpus))
        isolation = Isolation(gpus=plan.gpus, has_cdi_only=self._where.engine.has_cdi_only)
        services = [
            inference_service(home, run_id, owner, plan.engine, memory_mb, isolation=isolation),
            scorer_service(home, run_id, owner, images["scorer"], benchmark, has_executor=self._has_executor),
        ]
        if self._has_executor:
            # First: the scorer's container gets the folder of its socket.
            services.insert(0, executor_service(home, run_id, owner, images["executor"]))
        return services
