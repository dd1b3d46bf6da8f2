"""Runs a benchmark's data script in a throw-away container: third-party code with one folder, and maybe the network."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.types import Mount

from harness.domain.base import Frozen
from harness.domain.runs import Owner
from harness.errors import InfrastructureError, PrerequisiteError
from harness.home import Home
from harness.sandbox.certificates import host_authorities
from harness.sandbox.containers import ZONE_DATA, remove_container
from harness.sandbox.engine import docker_errors, labels, log_tail
from harness.sandbox.hardening import Isolation, Resources, bind, confined, host_config, service_user, temporary
from harness.sandbox.watch import wait_exit

TARGET = "/target"
DATA_DIR = "/data-dir"
# Run in the container: imports the script by path and calls one function with the target folder.
_RUNNER = """
import importlib.util, pathlib, sys
script, function, target = sys.argv[1:4]
sys.path.insert(0, "/benchmark")
spec = importlib.util.spec_from_file_location("benchmark_data", "/benchmark/" + script)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
call = getattr(module, function, None)
if call is None:
    sys.exit(f"{script} has no function {function}(target_dir)")
call(pathlib.Path(target))
"""


class DataScript(Frozen):
    """One call of `function(target_dir)` of a benchmark's script. `data_dir` is what the user named with --data-dir."""

    run_id: str | None = None
    image: str
    benchmark: Path
    script: str = "data.py"
    function: str
    target: Path
    data_dir: Path | None = None
    has_network: bool
    timeout_s: float = 1_800
    memory_mb: int = 4_000


def run_data_script(client: DockerClient, home: Home, owner: Owner, call: DataScript) -> str:
    """Fills `call.target` (an existing folder); returns the end of what the script wrote.

    Afterwards the files are the harness's own, regular, and readable by all.

    Raises:
        PrerequisiteError: the script failed, took too long, or left something else than files and folders.
        InfrastructureError: Docker failed.
    """
    uid, gid = service_user()
    if os.geteuid() == 0:
        os.chown(call.target, uid, gid)
    container = None
    try:
        with docker_errors(f"starting {call.script} of {call.benchmark.name}"):
            container = str(client.api.create_container(call.image, **_config(client, home, owner, call))["Id"])
            client.api.start(container)
        state = wait_exit(client, container, call.timeout_s)
        said = log_tail(client, container)
    finally:
        if container is not None:
            remove_container(client, container)
        take_over(call.target)
    what = f"{call.script} of benchmark {call.benchmark.name}: {call.function} "
    if state is None:
        raise PrerequisiteError(f"{what}did not end within {call.timeout_s:.0f} s: {said}")
    if state.is_out_of_memory:
        raise PrerequisiteError(f"{what}ran out of its {call.memory_mb} MB of memory")
    if state.exit_code != 0:
        raise PrerequisiteError(f"{what}failed with {state.exit_code}: {said}", _what_helps(call))
    return said


def _config(client: DockerClient, home: Home, owner: Owner, call: DataScript) -> dict[str, Any]:
    uid, gid = service_user()
    environment = {"HOME": "/tmp", "HF_HOME": "/tmp/huggingface", "PYTHONDONTWRITEBYTECODE": "1"}
    mounts: list[Mount] = [
        bind(call.benchmark, "/benchmark", read_only=True),
        bind(call.target, TARGET, read_only=False),
    ]
    if call.data_dir is not None:
        mounts.append(bind(call.data_dir, DATA_DIR, read_only=True))
        environment["DATA_DIR"] = DATA_DIR
    if call.has_network:
        authorities, names = host_authorities()
        mounts += authorities
        environment |= names
    isolation = Isolation(network="bridge" if call.has_network else "none")
    resources = Resources(memory_mb=call.memory_mb, pids=256)
    return {
        "entrypoint": list(confined()),
        "command": ["python", "-c", _RUNNER, call.script, call.function, TARGET],
        "user": f"{uid}:{gid}",
        "working_dir": "/tmp",
        "environment": environment,
        "labels": labels(home.label, call.run_id, ZONE_DATA, owner),
        "healthcheck": {"test": ["NONE"]},
        "use_config_proxy": call.has_network,
        "host_config": host_config(client, resources, isolation, mounts, tmpfs=temporary(call.memory_mb // 2)),
    }


def _what_helps(call: DataScript) -> str:
    if call.has_network:
        return "Its last line says why. If it cannot fetch here: --data-dir FOLDER, where config.yaml has data_files."
    return "Its last line says why. It has no network where the files come from --data-dir."


def take_over(folder: Path) -> None:
    """Makes everything below `folder` the harness's own and readable by all; nothing is followed.

    Raises:
        PrerequisiteError: it holds a link, a device, a FIFO or a socket.
    """
    odd: list[Path] = []
    for root, folders, files in os.walk(folder):
        for path in (Path(root) / name for name in (*folders, *files)):
            state = path.lstat()
            if stat.S_ISDIR(state.st_mode) or stat.S_ISREG(state.st_mode):
                _own(path, 0o755 if stat.S_ISDIR(state.st_mode) else 0o644)
            else:
                odd.append(path)
    _own(folder, 0o755)
    if odd:
        raise PrerequisiteError(f"{odd[0]} is neither a file nor a folder", "Correct the benchmark's data script.")


def _own(path: Path, mode: int) -> None:
    try:
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
        path.chmod(mode)
    except OSError as error:
        raise InfrastructureError(f"cannot take over {path}: {error}") from error
