"""Real Docker for the sandbox's tests: an engine, this checkout's agent image, runs whose every trace is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from built_images import built_image
from docker import DockerClient

from harness.domain.specs import Limits
from harness.home import Home
from harness.sandbox.agent import AgentContainerSpec, create_agent, start_agent
from harness.sandbox.disk import Quota, QuotaMode, choose_mode
from harness.sandbox.egress import remove_egress
from harness.sandbox.engine import connect, labels
from harness.sandbox.hardening import agent_user
from harness.sandbox.networks import ZONE_GRADER, create_run_network
from harness.sandbox.owner import current_owner
from harness.sandbox.reaper import remove_run_objects
from harness.settings import Settings

# Not the default: a test must not meet a network of a real run.
NETWORK_RANGE = "10.214.0.0/20"
LIMITS = Limits(timeout_s=60, disk_mb=64, memory_mb=256, pids=64, shm_mb=32, log_mb=2)
# Answers like the real one where the sandbox is concerned: health under a token, 404 for all else.
STAND_IN = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path.endswith("/health") else 404)
        self.end_headers()
    do_POST = do_GET
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("0.0.0.0", 5000), Handler).serve_forever()
"""
Launch = Callable[..., "Run"]


class Run:
    """A started agent container and all that belongs to it."""

    def __init__(self, spec: AgentContainerSpec, container: str) -> None:
        self.spec = spec
        self.container = container


@pytest.fixture(scope="session")
def client() -> Iterator[DockerClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def image() -> str:
    return built_image("agent")


@pytest.fixture
def grader(client: DockerClient, home: Home, image: str) -> Iterator[str]:
    """A container that is found as this home's grader."""
    network = client.api.create_network(
        f"harness-test-core-{home.label}", internal=True, labels=labels(home.label, None, "core")
    )
    host = client.api.create_host_config(network_mode=network["Id"], init=True)
    container = client.api.create_container(
        image, ["python3", "-c", STAND_IN], labels=labels(home.label, None, ZONE_GRADER), host_config=host
    )["Id"]
    try:
        client.api.start(container)
        yield str(container)
    finally:
        client.api.remove_container(container, force=True)
        client.api.remove_network(network["Id"])
        remove_egress(client, home)


@pytest.fixture
def launch(client: DockerClient, home: Home, image: str, tmp_path: Path) -> Iterator[Launch]:
    """Starts an agent container whose start script is the given text; everything of it is removed at the end."""
    quotas: dict[str, Quota] = {}

    def start(script: str, *, run_id: str = "run-a", mode: QuotaMode | None = None, **changes: object) -> Run:
        folder = home.run(run_id)
        for name in ("meta", "model", "data", "agent"):
            (folder.path / name).mkdir(parents=True)
        (folder.path / "agent/start.sh").write_text(script)
        uid, gid = agent_user()
        quota = Quota(mode=mode or choose_mode(Settings()), folder=folder.path, size_mb=64, uid=uid, gid=gid)
        quotas[run_id] = quota
        quota.create()
        spec = AgentContainerSpec(
            home_label=home.label,
            run_id=run_id,
            owner=current_owner(),
            image=image,
            agent_folder=folder.path / "agent",
            meta=folder.meta,
            model=folder.path / "model",
            model_repo_id="test/model",
            data=folder.path / "data",
            quota=quota,
            network=create_run_network(client, home, run_id, NETWORK_RANGE),
            limits=LIMITS,
            time_limit_s=60,
            task="test",
            grading_url="http://grader:5000/r/x",
        ).model_copy(update=changes)
        container = create_agent(client, spec)
        start_agent(client, container)
        return Run(spec, container)

    yield start
    for run_id, quota in quotas.items():
        remove_run_objects(client, home, run_id)
        quota.remove()
