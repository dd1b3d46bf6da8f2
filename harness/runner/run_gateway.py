"""The gateway of one run: started before its agent, found again after a death, ended in order."""

from __future__ import annotations

import hashlib

from harness.domain.llm import LlmBudget, LlmRun
from harness.domain.specs import NetworkPolicy, RunPlan
from harness.runner.gateway_client import GatewayClient
from harness.runner.tokens import kept_token
from harness.runner.where import Where
from harness.sandbox.agent import AgentLlm
from harness.sandbox.containers import ZONE_GATEWAY, find_container, stop_container
from harness.sandbox.gateway_service import GatewaySpec, UpstreamSpec, find_gateway, start_gateway
from harness.sandbox.networks import GATEWAY_ALIAS, PROXY_PORT, RunNetwork
from harness.sandbox.owner import current_owner
from harness.sandbox.services import SOCKET_NAME

START_TIMEOUT_S = 60.0
# It has 5 s for calls under way; after that it writes down what is left.
STOP_GRACE_S = 10


class RunGateway:
    """The gateway of one run. Every method may be called again after a death."""

    def __init__(self, plan: RunPlan, where: Where) -> None:
        self._plan = plan
        self._client, self._home, self._source = where.client, where.home, where.llm_source
        self._has_private_hosts = where.has_private_hosts
        self.client = GatewayClient(where.home.gateway_dir(plan.run_id) / SOCKET_NAME, plan.run_id)

    def start(self, network: RunNetwork) -> None:
        """It answers, and the run may call, when this returns; one that is there goes on.

        Raises:
            ServiceUnavailable: it does not come up; its last words are in the message.
            PrerequisiteError: the key is not there any more.
        """
        run_id = self._plan.run_id
        if find_gateway(self._client, self._home, run_id) is None:
            start_gateway(self._client, self._home, self._spec(), network, START_TIMEOUT_S)
        self.client.open_run(self._registration(network))

    def stop(self) -> None:
        """Ends it in order: what it has recorded is on disk afterwards. It may be gone."""
        container = find_container(self._client, self._home, self._plan.run_id, ZONE_GATEWAY)
        if container is not None:
            stop_container(self._client, container, STOP_GRACE_S)

    def agent_llm(self) -> AgentLlm | None:
        """What the agent is told of its LLM."""
        llm = self._plan.llm
        return AgentLlm(provider=llm.provider, model=llm.model, token=self._token()) if llm else None

    def proxy_url(self) -> str | None:
        """Where the agent's way to the allowed hosts is, with what it must show there."""
        if self._plan.network is not NetworkPolicy.ALLOWLIST:
            return None
        return f"http://run:{self._token()}@{GATEWAY_ALIAS}:{PROXY_PORT}"

    def _token(self) -> str:
        return kept_token(self._home.run(self._plan.run_id).llm_token)

    def _spec(self) -> GatewaySpec:
        llm = self._plan.llm
        upstream = None
        if llm is not None:
            upstream = UpstreamSpec(provider=llm.provider, url=llm.url, key=self._source.find_key(llm.key_from))
        return GatewaySpec(
            run_id=self._plan.run_id,
            owner=current_owner(),
            image=self._plan.images[ZONE_GATEWAY],
            upstream=upstream,
            prices=self._source.prices,
            has_private_hosts=self._has_private_hosts,
        )

    def _registration(self, network: RunNetwork) -> LlmRun:
        llm = self._plan.llm
        return LlmRun(
            run_id=self._plan.run_id,
            token_sha256=hashlib.sha256(self._token().encode()).hexdigest(),
            subnets=(network.subnet,),
            budget=llm.budget if llm else LlmBudget(),
            models=(llm.model,) if llm else (),
            allowed_tools=llm.tools if llm else (),
            allowed_hosts=self._plan.allowed_hosts,
        )
