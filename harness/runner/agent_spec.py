"""From a plan and what was made for its run to everything that decides the agent's container."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.domain.hosts import is_covered
from harness.domain.specs import RunPlan
from harness.runner.attempt import Attempt
from harness.runner.network_policy import HUB_HOST
from harness.runner.where import Where
from harness.sandbox.agent import AgentContainerSpec, AgentLlm
from harness.sandbox.disk import Quota
from harness.sandbox.networks import GRADER_ALIAS, GRADER_PORT, RunNetwork
from harness.sandbox.owner import current_owner

# The agent's own `timeout` fires a little after the deadline that it was told.
SWITCH_LAG_S = 2


@dataclass(frozen=True)
class Reach:
    """What an agent can talk to: the grader under the run's token, and an LLM and a proxy where it has them."""

    network: RunNetwork
    token: str
    llm: AgentLlm | None = None
    proxy_url: str | None = None


def agent_spec(plan: RunPlan, where: Where, quota: Quota, reach: Reach, time_limit_s: float) -> AgentContainerSpec:
    """The specification of the agent's container, with `time_limit_s` left."""
    config, folder = plan.agent.config, where.home.run(plan.run_id)
    continuation = Attempt.load(folder).continuation
    return AgentContainerSpec(
        home_label=where.home.label,
        run_id=plan.run_id,
        owner=current_owner(),
        image=plan.images["agent"],
        agent_folder=plan.agent.path,
        start=config.resume if continuation and config.resume else config.start,
        continuation=continuation,
        meta=folder.meta,
        model=where.home.path / plan.model.path,
        model_repo_id=plan.model.repo_id,
        data=where.home.path / plan.data.train_path,
        quota=quota,
        network=reach.network,
        limits=plan.limits,
        time_limit_s=max(1, math.ceil(time_limit_s)) + SWITCH_LAG_S,
        task=plan.benchmark.id,
        grading_url=f"http://{GRADER_ALIAS}:{GRADER_PORT}/r/{reach.token}",
        llm=reach.llm,
        proxy_url=reach.proxy_url,
        has_hub=is_covered(HUB_HOST, plan.allowed_hosts),
        seed=plan.seed,
        env_vars=config.env_vars,
        cores=where.engine.cores,
        gpus=plan.gpus,
        has_cdi_only=where.engine.has_cdi_only,
        runtime=where.runtime,
    )
