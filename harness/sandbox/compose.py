"""The services of compose.yaml: starting them, stopping them, and finding the grader's container."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient

from harness.domain.base import Frozen
from harness.errors import InfrastructureError, PrerequisiteError
from harness.home import Home
from harness.sandbox.engine import LABEL_HOME, LABEL_ZONE, docker_errors, log_tail
from harness.sandbox.home_lock import alone
from harness.sandbox.networks import ZONE_GRADER, remove_doubles, repair_grader
from harness.sandbox.process import ProcessResult, run_process

PROBE_TIMEOUT_S = 30
UP_TIMEOUT_S = 180
START_TIMEOUT_S = 15.0
POLL_S = 0.1
ENDED_STATES = ("created", "exited")
CANDIDATES = (("docker", "compose"), ("docker-compose",))
_INSTALL = "Install one: `apt-get install docker-compose` (Debian, Ubuntu), or Docker's docker-compose-plugin."
# What Compose and the Engine say -> what to do about it.
_FIXES = (
    (
        re.compile(r"client version \S+ is too (new|old)|minimum supported API version", re.I),
        "The Compose client and the Engine do not fit: upgrade the older one, or set DOCKER_API_VERSION.",
    ),
    (
        re.compile(r"Unsupported config option|Additional properties|Invalid top-level", re.I),
        "Needs Compose >= 1.29.2.",
    ),
    (
        re.compile(r"address pools|non-overlapping", re.I),
        "Docker has no free network range left: remove unused networks, or widen default-address-pools in daemon.json.",
    ),
    (re.compile(r"permission denied", re.I), "Add this user to the group `docker` and log in again, or run as root."),
    (re.compile(r"No such image|pull access denied|image .* not found", re.I), "Build the images: `make images`."),
)


class GraderSpec(Frozen):
    """What `compose.yaml` is filled in with for one home."""

    home_path: Path
    image: str
    user: str
    log_level: str = "INFO"

    @property
    def home(self) -> Home:
        return Home(self.home_path)


@dataclass(frozen=True)
class GraderContainer:
    """A home's grader container: its id, the image tag it was made from, and Docker's word for its state."""

    container_id: str
    image: str
    state: str

    @property
    def is_running(self) -> bool:
        return self.state == "running"


def grader_user() -> str:
    """`uid:gid` of the grader: root on a root host (it reads every agent's files), else this user."""
    return f"{os.geteuid()}:{os.getegid()}"


def project_name(home: Home) -> str:
    """The Compose project of a home: two homes on one machine do not meet."""
    return f"harness-{home.label}"


def compose_environment(spec: GraderSpec) -> dict[str, str]:
    """The variables of compose.yaml, for `spec`."""
    return {
        "HARNESS_HOME": str(spec.home_path),
        "GRADER_HOME_LABEL": spec.home.label,
        "GRADER_IMAGE": spec.image,
        "GRADER_USER": spec.user,
        "GRADER_LOG_LEVEL": spec.log_level,
    }


def find_compose() -> tuple[str, ...]:
    """The command words of a Compose client that works here.

    Raises:
        PrerequisiteError: there is none.
    """
    for words in CANDIDATES:
        try:
            result = run_process([*words, "version"], timeout_s=PROBE_TIMEOUT_S)
        except PrerequisiteError:
            continue
        # Without the plugin, some clients print their help for `docker compose version` and exit with 0.
        if result.has_succeeded and "compose" in result.stdout.lower() and "version" in result.stdout.lower():
            return words
    raise PrerequisiteError("no Compose client: neither `docker compose` nor `docker-compose` works here", _INSTALL)


def grader_container(client: DockerClient, home: Home) -> GraderContainer | None:
    """This home's grader container, whatever its state (a running one first), or none."""
    with docker_errors("looking for the grader"):
        found = client.api.containers(
            all=True, filters={"label": [f"{LABEL_HOME}={home.label}", f"{LABEL_ZONE}={ZONE_GRADER}"]}
        )
    graders = [GraderContainer(str(row["Id"]), str(row["Image"]), str(row["State"])) for row in found]
    return min(graders, key=lambda grader: not grader.is_running, default=None)


def compose_up(client: DockerClient, root: Path, spec: GraderSpec) -> GraderContainer:
    """Starts the services of `root`'s compose.yaml for a home whose folders exist, or renews them; idempotent.

    A running grader of the same image is left as it is, and costs one look.

    Raises:
        PrerequisiteError: no usable Compose client, or an image is missing.
        InfrastructureError: the grader does not stay up; the message ends with its last log lines.
    """
    with alone(spec.home):
        running = grader_container(client, spec.home)
        if running is not None and running.is_running and running.image == spec.image:
            return running
        remove_doubles(client, f"{project_name(spec.home)}_")
        repair_grader(client, spec.home)
        arguments = ["up", "-d", "--no-build", "--remove-orphans"]
        _compose(root, spec.home, arguments, compose_environment(spec))
        return _await_running(client, spec.home)


def start_again(client: DockerClient, home: Home) -> bool:
    """Starts a home's grader container if it is there and has ended; returns whether it was."""
    found = grader_container(client, home)
    if found is None or found.state not in ENDED_STATES:
        return False
    repair_grader(client, home)
    with docker_errors("starting the grader again"):
        client.api.start(found.container_id)
    return True


def compose_down(client: DockerClient, root: Path, home: Home) -> bool:
    """Stops and removes a home's services; returns whether there was anything. What they stored stays."""
    with alone(home):
        if grader_container(client, home) is None:
            return False
        repair_grader(client, home)
        _compose(root, home, ["down", "--remove-orphans"], {"HARNESS_HOME": str(home.path)})
        return True


def _compose(root: Path, home: Home, arguments: list[str], environment: dict[str, str]) -> None:
    file = (root / "compose.yaml").resolve()
    if not file.is_file():
        raise PrerequisiteError(f"no {file}", "Run in the checkout, or point HARNESS_ROOT at it.")
    words = [*find_compose(), "-p", project_name(home), "-f", str(file), *arguments]
    result = run_process(words, timeout_s=UP_TIMEOUT_S, folder=file.parent, environment=environment)
    if not result.has_succeeded:
        raise _failure(result, arguments[0])


def _failure(result: ProcessResult, verb: str) -> PrerequisiteError:
    text = result.last_lines()
    fix = next((fix for pattern, fix in _FIXES if pattern.search(text)), "Mend what the last lines say, and repeat.")
    return PrerequisiteError(f"compose {verb} failed:\n{text}\n", fix)


def _await_running(client: DockerClient, home: Home) -> GraderContainer:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        found = grader_container(client, home)
        if found is not None and found.is_running:
            return found
        if time.monotonic() > deadline:
            state = found.state if found else "missing"
            log = log_tail(client, found.container_id) if found else ""
            raise InfrastructureError(
                f"the grader's container is {state}:\n{log}\n", "Try `harness down`, `harness up`."
            )
        time.sleep(POLL_S)
