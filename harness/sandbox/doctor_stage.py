"""A run of the doctor's own: network, folders, quota, all that an agent's container has; nothing of it is left."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker import DockerClient

from harness.domain.specs import Limits
from harness.home import DOCTOR_PREFIX, Home
from harness.sandbox.agent import AGENT_FOLDER, AgentContainerSpec, AgentLlm
from harness.sandbox.disk import Quota, choose_mode
from harness.sandbox.gateway_service import GatewaySpec, start_gateway
from harness.sandbox.hardening import agent_user
from harness.sandbox.networks import GRADER_ALIAS, GRADER_PORT, create_run_network
from harness.sandbox.owner import current_owner
from harness.sandbox.reaper import remove_run_objects
from harness.settings import Settings

MODEL_REPO = "doctor/model"
GATEWAY_START_S = 60.0
LIMITS = Limits(timeout_s=90, disk_mb=64, memory_mb=512, pids=128, shm_mb=64, log_mb=4)


@contextmanager
def staged(client: DockerClient, home: Home, settings: Settings, image: str, role: str) -> Iterator[AgentContainerSpec]:
    """A run of the doctor's own, with all that a run has; nothing of it is left."""
    run_id = f"{DOCTOR_PREFIX}{secrets.token_hex(4)}-{role}"
    folder = home.run(run_id)
    uid, gid = agent_user()
    quota = Quota(mode=choose_mode(settings), folder=folder.path, size_mb=LIMITS.disk_mb, uid=uid, gid=gid)
    try:
        # First what bears its owner's name: a mount without one would be taken for a dead process's.
        network = create_run_network(client, home, run_id, settings.network_range)
        for name in ("meta", "model", "data", "agent"):
            _open_folder(folder.path / name)
        quota.create()
        # Docker makes a missing mount point as root, and nobody else could remove it from a folder.
        for name in ("data", f"models/{MODEL_REPO}"):
            (folder.workspace / name).mkdir(parents=True)
        yield AgentContainerSpec(
            home_label=home.label,
            run_id=run_id,
            owner=current_owner(),
            image=image,
            agent_folder=folder.path / "agent",
            meta=folder.meta,
            model=folder.path / "model",
            model_repo_id=MODEL_REPO,
            data=folder.path / "data",
            quota=quota,
            network=network,
            limits=LIMITS,
            time_limit_s=LIMITS.timeout_s,
            task="doctor",
            grading_url=f"http://{GRADER_ALIAS}:{GRADER_PORT}/r/doctor",
            runtime=settings.runtime,
        )
    finally:
        remove_run_objects(client, home, run_id)
        quota.remove()
        shutil.rmtree(folder.path, ignore_errors=True)


def _open_folder(folder: Path) -> None:
    """A folder with a file, open to all on the host: inside, only the mount itself can keep it from being changed."""
    folder.mkdir(parents=True)
    (folder / "a-file").write_text("unchanged")
    (folder / "a-file").chmod(0o666)
    folder.chmod(0o777)


def write_agent(spec: AgentContainerSpec, script: str) -> None:
    """Makes `script`, a Python program, what the container runs."""
    (spec.agent_folder / "probe.py").write_text(script)
    (spec.agent_folder / "start.sh").write_text(f"exec python3 -I {AGENT_FOLDER}/probe.py\n")
    for path in spec.agent_folder.iterdir():
        path.chmod(0o666)


def with_gateway(client: DockerClient, home: Home, stage: AgentContainerSpec, image: str) -> AgentContainerSpec:
    """The stage with a gateway beside it, as a run with an LLM has one; what belongs to the stage goes with it."""
    spec = GatewaySpec(run_id=stage.run_id, owner=stage.owner, image=image)
    start_gateway(client, home, spec, stage.network, GATEWAY_START_S)
    llm = AgentLlm(provider="openai", model="doctor", token=secrets.token_urlsafe(16))
    return stage.model_copy(update={"llm": llm})
