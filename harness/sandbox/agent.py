"""The agent's container: hardened, on its run's network, with its task in its environment and a dead man's switch."""

from __future__ import annotations

import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.types import Mount
from pydantic import Field

from harness.domain.base import Frozen
from harness.domain.llm import Provider
from harness.domain.runs import Owner
from harness.domain.specs import Limits
from harness.errors import PrerequisiteError, UsageError
from harness.sandbox.containers import ZONE_AGENT, inspect_image, remove_container
from harness.sandbox.disk import Quota, QuotaMode
from harness.sandbox.engine import docker_errors, labels
from harness.sandbox.hardening import Isolation, Resources, bind, confined, host_config
from harness.sandbox.networks import GATEWAY_ALIAS, GATEWAY_PORT, GRADER_ALIAS, NO_NETWORK, RunNetwork

WORKSPACE = "/workspace"
AGENT_FOLDER = "/opt/agent-folder"
META_FOLDER = "/run/harness"
LAUNCHER = "/opt/launch/launch.py"
# What an agent is told first, and what after an early end; files of META_FOLDER.
PROMPT_NAME, CONTINUE_NAME = "prompt.md", "continue.md"
# Where in the workspace agents put their native logs.
TRAJECTORY_NAME = "trajectory"
# Nothing answers there, and no route leads there from a run's network. Without it the engine would put the agent's
# questions to the host's own resolver: a way out (CVE-2024-29018), and 20 s of waiting for each unknown name.
DNS_SERVER = "192.0.2.1"
_DNS_OPTIONS = ["timeout:1", "attempts:1"]
# From TERM to KILL when the dead man's switch goes off.
KILL_AFTER_S = 15


class AgentLlm(Frozen):
    """What an agent is told of its driver LLM; `token` is the run's own, and worth nothing outside of its network."""

    provider: Provider
    model: str
    token: str


class AgentContainerSpec(Frozen):
    """Everything that decides an agent's container. Paths are the host's; `time_limit_s` ends it from inside."""

    home_label: str
    run_id: str
    owner: Owner
    image: str
    agent_folder: Path
    start: str = "start.sh"
    meta: Path
    model: Path
    model_repo_id: str
    data: Path
    quota: Quota
    network: RunNetwork
    limits: Limits
    time_limit_s: int = Field(gt=0)
    task: str
    grading_url: str
    llm: AgentLlm | None = None
    # Of the forward proxy, under the network policy `allowlist`; and whether the model hub is reached through it.
    proxy_url: str | None = None
    has_hub: bool = False
    # How often the agent has been taken up again after an early end (`--continue`).
    continuation: int = 0
    seed: int = 0
    env_vars: dict[str, str] = Field(default_factory=dict)
    cpuset: str | None = None
    cores: int = Field(1, gt=0)
    gpus: tuple[str, ...] = ()
    has_cdi_only: bool = False
    runtime: str = ""

    @property
    def model_path(self) -> str:
        return model_path(self.model_repo_id)


def model_path(repo_id: str) -> str:
    """Where an agent finds its base model."""
    return f"{WORKSPACE}/models/{repo_id}"


def environment(spec: AgentContainerSpec) -> dict[str, str]:
    """The agent's environment (contracts.md section 1); what the contract fixes cannot be overridden by `env_vars`."""
    threads = min(spec.cores, max(1, int(spec.limits.cpus))) if spec.limits.cpus else spec.cores
    defaults = {
        # A CPU quota does not change what `nproc` says: without this, torch starts a thread for each core of the host.
        "OMP_NUM_THREADS": str(threads),
        "USER": "agent",
        "LOGNAME": "agent",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
    }
    fixed = {
        "TASK": spec.task,
        "BASE_MODEL": spec.model_repo_id,
        "WORKSPACE": WORKSPACE,
        "MODEL_PATH": spec.model_path,
        "DATA_PATH": f"{WORKSPACE}/data",
        "OUTPUT_DIR": f"{WORKSPACE}/output",
        "GRADING_SERVER_URL": spec.grading_url,
        "RUN_ID": spec.run_id,
        "TIMEOUT_S": str(spec.limits.timeout_s),
        "PROMPT_FILE": f"{META_FOLDER}/{PROMPT_NAME}",
        "CONTINUE_FILE": f"{META_FOLDER}/{CONTINUE_NAME}",
        "CONTINUATION": str(spec.continuation),
        "TRAJECTORY_DIR": f"{WORKSPACE}/{TRAJECTORY_NAME}",
        # The Python with the training stack; an agent's own may be another.
        "TRAINING_PYTHON": "/opt/venv/bin/python",
        "SEED": str(spec.seed),
        "HOME": f"{WORKSPACE}/.home",
        "HF_HOME": f"{WORKSPACE}/.home/huggingface",
        "TMPDIR": "/tmp",
        # Without it, TERM to the container does not reach what a shell has started.
        "TINI_KILL_PROCESS_GROUP": "1",
    }
    return {**defaults, **spec.env_vars, **fixed, **network_environment(spec), **llm_environment(spec.llm)}


def network_environment(spec: AgentContainerSpec) -> dict[str, str]:
    """The way to the allowed hosts, under the names that clients read; nothing else leads anywhere."""
    # Without the hub, each look-up there would cost 20 s.
    is_offline = "0" if spec.has_hub else "1"
    found = dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"), is_offline)
    if spec.proxy_url is None:
        return found
    direct = ",".join((GRADER_ALIAS, GATEWAY_ALIAS, "localhost", "127.0.0.1"))
    # Clients differ in which spelling they read: curl knows `http_proxy` in small letters alone.
    for name, value in (("HTTPS_PROXY", spec.proxy_url), ("HTTP_PROXY", spec.proxy_url), ("NO_PROXY", direct)):
        found |= {name: value, name.lower(): value}
    return found


def llm_environment(llm: AgentLlm | None) -> dict[str, str]:
    """Where the driver LLM is, under the names that clients read; every key is the run's token for the gateway."""
    if llm is None:
        return {}
    gateway = f"http://{GATEWAY_ALIAS}:{GATEWAY_PORT}"
    base = f"{gateway}/v1" if llm.provider == "openai" else gateway
    keys = ("LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    return {
        **dict.fromkeys(keys, llm.token),
        "LLM_PROVIDER": llm.provider,
        "LLM_MODEL": llm.model,
        "CHAT_MODEL": llm.model,
        "LLM_BASE_URL": base,
        "OPENAI_BASE_URL": f"{gateway}/v1",
        "OPENAI_API_BASE": f"{gateway}/v1",
        "ANTHROPIC_BASE_URL": gateway,
        "GOOGLE_GEMINI_BASE_URL": gateway,
    }


def command(spec: AgentContainerSpec) -> list[str]:
    """The agent's script under `timeout`: it ends by itself where the harness and Docker's daemon are dead.

    Between the two, images/agent/launch.py waits for what the script leaves at work in the background.
    """
    limit = ["timeout", "-k", str(KILL_AFTER_S), str(spec.time_limit_s)]
    return [*limit, "python3", "-I", "-S", LAUNCHER, "bash", f"{AGENT_FOLDER}/{spec.start}"]


def _mounts(spec: AgentContainerSpec) -> list[Mount]:
    place = spec.quota.run_folder
    return [
        bind(place.workspace, WORKSPACE, read_only=False),
        bind(place.tmp, "/tmp", read_only=False),
        bind(spec.model, spec.model_path, read_only=True),
        bind(spec.data, f"{WORKSPACE}/data", read_only=True),
        bind(spec.meta, META_FOLDER, read_only=True),
        bind(spec.agent_folder, AGENT_FOLDER, read_only=True),
    ]


def _check_start(spec: AgentContainerSpec) -> None:
    script = spec.agent_folder / spec.start
    if Path(spec.start).is_absolute() or ".." in Path(spec.start).parts or not script.is_file():
        raise UsageError(f"agent folder {spec.agent_folder} has no {spec.start}", "Set `start` in its config.yaml.")
    for path, bits in ((spec.agent_folder, 0o005), (script, 0o004), (spec.model, 0o005), (spec.data, 0o005)):
        state = path.stat()
        if state.st_uid != spec.quota.uid and stat.S_IMODE(state.st_mode) & bits != bits:
            raise PrerequisiteError(f"the agent's user cannot read {path}", f"chmod -R a+rX {spec.agent_folder}")


def _refuse_volumes(client: DockerClient, image: str) -> None:
    """A volume that the image declares would be writable, and outside of the run's size limit."""
    volumes = inspect_image(client, image)["Config"].get("Volumes") or {}
    if volumes:
        raise UsageError(f"image {image} declares volumes: {', '.join(volumes)}", "Remove VOLUME from its Dockerfile.")


def create_agent(client: DockerClient, spec: AgentContainerSpec) -> str:
    """A created, not yet started container; returns its id.

    Raises:
        UsageError: the agent's folder or image is unfit.
        PrerequisiteError: the image or a mount source is missing.
        InfrastructureError: Docker failed.
    """
    _check_start(spec)
    _refuse_volumes(client, spec.image)
    with docker_errors(f"creating the agent container of {spec.run_id}"):
        reply = client.api.create_container(spec.image, **_container_config(client, spec))
    return str(reply["Id"])


def _container_config(client: DockerClient, spec: AgentContainerSpec) -> dict[str, Any]:
    is_watched = spec.quota.mode is QuotaMode.WATCH
    resources = Resources(
        memory_mb=spec.limits.memory_mb,
        pids=spec.limits.pids,
        shm_mb=spec.limits.shm_mb,
        cpus=spec.limits.cpus,
        cpuset=spec.cpuset,
        fsize_mb=spec.quota.size_mb if is_watched else None,
        log_mb=spec.limits.log_mb,
    )
    isolation = Isolation(
        network=spec.network.name, runtime=spec.runtime, gpus=spec.gpus, has_cdi_only=spec.has_cdi_only
    )
    return {
        "entrypoint": list(confined()),
        "command": command(spec),
        "name": f"harness-{spec.run_id}-agent",
        "hostname": "agent",
        "user": f"{spec.quota.uid}:{spec.quota.gid}",
        "working_dir": WORKSPACE,
        "environment": environment(spec),
        "labels": labels(spec.home_label, spec.run_id, ZONE_AGENT, spec.owner),
        # An image's own health check would run beside the agent, outside of its time limit.
        "healthcheck": {"test": ["NONE"]},
        "host_config": host_config(
            client,
            resources,
            isolation,
            _mounts(spec),
            dns=[DNS_SERVER],
            dns_opt=_DNS_OPTIONS,
            dns_search=["."],
            extra_hosts=_names(spec),
        ),
        "networking_config": _endpoint(client, spec.network),
    }


def _names(spec: AgentContainerSpec) -> dict[str, str]:
    """Host name -> address of all that an agent reaches."""
    names = {GRADER_ALIAS: spec.network.grader}
    if spec.llm is not None or spec.proxy_url is not None:
        names[GATEWAY_ALIAS] = spec.network.llm_gateway
    return names


def _endpoint(client: DockerClient, network: RunNetwork) -> dict[str, Any] | None:
    if network == NO_NETWORK:
        return None
    address = client.api.create_endpoint_config(ipv4_address=network.agent)
    return {"EndpointsConfig": {network.name: address}}


def start_agent(client: DockerClient, container_id: str) -> datetime:
    """Starts it and returns when its process began. One that cannot start is removed: it would stay in `created`.

    Raises:
        PrerequisiteError: no GPU support in this Docker.
        InfrastructureError: anything else.
    """
    try:
        with docker_errors("starting the agent container"):
            client.api.start(container_id)
            state = client.api.inspect_container(container_id)["State"]
    except BaseException:
        remove_container(client, container_id)
        raise
    return datetime.fromisoformat(state["StartedAt"])
