"""What a running container uses, read from its cgroup files: no call to the engine, whose own takes a second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from docker import DockerClient

from harness.domain.base import Frozen
from harness.sandbox.engine import docker_errors

_CGROUPS = Path("/sys/fs/cgroup")


class ResourceUse(Frozen):
    """One sample. `cpu_pct` is of one core since the sample before; the last two count limits met since the start."""

    cpu_pct: float
    memory_mb: float
    pids: int
    pids_limit_hits: int
    oom_kills: int


class ResourceMeter:
    """Samples one running container."""

    def __init__(self, client: DockerClient, container_id: str) -> None:
        """Raises: InfrastructureError: Docker failed."""
        with docker_errors(f"looking at container {container_id[:12]}"):
            pid = int(client.api.inspect_container(container_id)["State"]["Pid"])
        self._folders = cgroup_folders(pid) if pid else {}
        self._previous: tuple[float, float] | None = None

    def sample(self) -> ResourceUse | None:
        """What it uses now; None when it does not run, or its cgroup cannot be read here."""
        try:
            return self._read_v2(self._folders[""]) if "memory" not in self._folders else self._read_v1()
        except (OSError, KeyError, ValueError, IndexError):
            return None

    def pids_limit_hits(self) -> int:
        """How many forks were refused since the start; cheap. 0 when it does not run: keep the last answer."""
        return pids_limit_hits(self._folders)

    def _read_v2(self, folder: Path) -> ResourceUse:
        memory, events = _table(folder / "memory.stat"), _table(folder / "memory.events")
        return ResourceUse(
            cpu_pct=self._cpu_pct(_table(folder / "cpu.stat")["usage_usec"] / 1e6),
            memory_mb=(_number(folder / "memory.current") - memory.get("inactive_file", 0)) / 1e6,
            pids=_number(folder / "pids.current"),
            pids_limit_hits=_table(folder / "pids.events").get("max", 0),
            oom_kills=events.get("oom_kill", 0),
        )

    def _read_v1(self) -> ResourceUse:
        memory, pids = self._folders["memory"], self._folders["pids"]
        stat, control = _table(memory / "memory.stat"), _table(memory / "memory.oom_control")
        return ResourceUse(
            cpu_pct=self._cpu_pct(_number(self._folders["cpuacct"] / "cpuacct.usage") / 1e9),
            memory_mb=(_number(memory / "memory.usage_in_bytes") - stat.get("total_inactive_file", 0)) / 1e6,
            pids=_number(pids / "pids.current"),
            pids_limit_hits=_table(pids / "pids.events").get("max", 0),
            oom_kills=control.get("oom_kill", 0),
        )

    def _cpu_pct(self, used_s: float) -> float:
        now = time.monotonic()
        before, self._previous = self._previous, (now, used_s)
        if before is None or now <= before[0]:
            return 0.0
        return max(0.0, 100 * (used_s - before[1]) / (now - before[0]))


def cgroup_folders(pid: int) -> dict[str, Path]:
    """Controller -> cgroup folder of process `pid`; version 2 has one folder, under the name ''."""
    found = {}
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = (
                _CGROUPS / controllers / path.lstrip("/") if controllers else _CGROUPS / path.lstrip("/")
            )
    return found


def pids_limit_hits(folders: Mapping[str, Path]) -> int:
    """Refused forks by the cgroup folders of a container; 0 when they are gone, or cannot be read here."""
    folder = folders.get("pids") or folders.get("")
    try:
        return _table(folder / "pids.events").get("max", 0) if folder else 0
    except (OSError, ValueError):
        return 0


def _number(path: Path) -> int:
    return int(path.read_text())


def _table(path: Path) -> dict[str, int]:
    """A file of `name number` lines; empty if it is not there (an older kernel)."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    return {words[0]: int(words[1]) for words in (line.split() for line in lines) if len(words) == 2}
