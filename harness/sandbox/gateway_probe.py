"""A container that lives for one question to a provider: which models it has; the answer proves address and key."""

from __future__ import annotations

from collections.abc import Sequence

from docker import DockerClient
from pydantic import ValidationError

from harness.domain.llm import ModelList
from harness.errors import InfrastructureError
from harness.home import Home
from harness.sandbox.certificates import host_authorities
from harness.sandbox.containers import remove_container
from harness.sandbox.egress import egress_network
from harness.sandbox.engine import docker_errors, labels, log_tail
from harness.sandbox.gateway_service import (
    CONFIG_FOLDER,
    CONFIG_NAME,
    GatewaySpec,
    container_basics,
    outward_host_config,
    remove_config,
    stage_config,
)
from harness.sandbox.hardening import bind, service_user
from harness.sandbox.watch import wait_exit

ZONE_PROBE = "gateway-probe"
_COMMAND = ("python", "-m", "harness.gateway.probe", "--config", f"{CONFIG_FOLDER}/{CONFIG_NAME}")
# The question has half a minute; the rest is for a slow engine.
TIMEOUT_S = 90.0


def ask_provider(client: DockerClient, home: Home, spec: GatewaySpec, names: Sequence[str] = ()) -> ModelList:
    """What the provider of `spec` says to the question which models it has, and `names` among them.

    It is asked from where a gateway would be.

    Raises:
        InfrastructureError: it could not be asked.
        PrerequisiteError: the image is missing.
    """
    uid, gid = service_user()
    container: str | None = None
    try:
        config = stage_config(home, spec)
        authorities, environment = host_authorities()
        with egress_network(client, home) as outside, docker_errors(f"creating the probe of {spec.run_id}"):
            mounts = [bind(config, CONFIG_FOLDER, read_only=True), *authorities]
            reply = client.api.create_container(
                spec.image,
                **container_basics(environment),
                command=[*_COMMAND, *(f"--model={name}" for name in names)],
                user=f"{uid}:{gid}",
                labels=labels(home.label, spec.run_id, ZONE_PROBE, spec.owner),
                host_config=outward_host_config(client, outside, mounts),
            )
            container = str(reply["Id"])
        with docker_errors(f"starting the probe of {spec.run_id}"):
            client.api.start(container)
        state = wait_exit(client, container, TIMEOUT_S)
        if state is None or state.exit_code != 0:
            ended = "does not end" if state is None else f"ended with {state.exit_code}"
            raise InfrastructureError(f"the probe of the LLM {ended}: {log_tail(client, container)}")
        return _answer(client, container)
    finally:
        if container is not None:
            remove_container(client, container)
        remove_config(home, spec.run_id)


def _answer(client: DockerClient, container: str) -> ModelList:
    with docker_errors("reading what the probe of the LLM says"):
        said: bytes = client.api.logs(container, stderr=False)
    try:
        return ModelList.model_validate_json(said.splitlines()[-1])
    except (IndexError, ValidationError) as error:
        raise InfrastructureError("the probe of the LLM says nothing that can be read") from error
