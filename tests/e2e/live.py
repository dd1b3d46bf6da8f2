"""`harness run` and the other commands as people use them, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from harness.home import Home, RunFolder
from harness.sandbox.disk import loop_devices
from harness.sandbox.engine import LABEL_HOME

ROOT = Path(__file__).resolve().parents[2]
# Not the default: a test must not meet a network of a real run.
NETWORK_RANGE = "10.214.64.0/20"
# Generous: the machine may be busy with much else.
COMMAND_TIMEOUT_S = 600.0
POLL_S = 0.1


def await_true(is_so: Callable[[], Any], timeout_s: float = 120, what: str = "it") -> Any:
    """The first true value of `is_so`; fails the test where there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := is_so()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come about in {timeout_s:.0f} s")
        time.sleep(POLL_S)
    return value


@dataclass
class LiveRun:
    """A `harness run` that is under way in another process."""

    process: subprocess.Popen[bytes]
    folder: RunFolder
    said: Path

    @property
    def run_id(self) -> str:
        return self.folder.path.name

    @property
    def words(self) -> str:
        """What the harness has said on stderr."""
        return self.said.read_text(errors="replace")

    def conclude(self, timeout_s: float = COMMAND_TIMEOUT_S) -> dict[str, Any]:
        """What `harness run --json` prints at the end."""
        out, _ = self.process.communicate(timeout=timeout_s)
        if not out:
            pytest.fail(f"{self.run_id} ended with {self.process.returncode}:\n{self.words[-4000:]}")
        facts: dict[str, Any] = json.loads(out)
        return facts


@dataclass(frozen=True)
class Harness:
    """The command line on one home; `folder` is where it is called, `agents` holds the tests' own agents."""

    home: Home
    folder: Path
    agents: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        own = ("HARNESS_", "SMITH_BENCH_DIR", "AUTORL_FILE_PATH")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return inherited | {
            "HARNESS_HOME": str(self.home.path),
            "HARNESS_ROOT": str(ROOT),
            "HARNESS_AGENTS_DIR": str(self.agents),
            "HARNESS_NETWORK_RANGE": NETWORK_RANGE,
            "PYTHONPATH": str(ROOT),
            **self.settings,
        }

    @contextmanager
    def up(self) -> Iterator[None]:
        """Its grader answers while the block runs; afterwards nothing that runs is left."""
        done = self.call("up")
        assert done.returncode == 0, done.stderr
        try:
            yield
        finally:
            done = self.call("down", "--force")
            self.call("clean", "--yes")
        assert done.returncode == 0, done.stderr

    def call(self, *words: str, timeout_s: float = COMMAND_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "harness", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def ask(self, *words: str) -> Any:
        """What a command that must succeed prints with `--json`."""
        done = self.call(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Rows of the record."""
        rows: list[dict[str, Any]] = self.ask("sql", sql)
        return rows

    def start(self, agent: str, *options: str) -> LiveRun:
        """`harness run` of an agent on `arithmetic` in the background, as soon as its folder is there."""
        before = set(self.home.runs.iterdir())
        said = self.folder / f"{agent}-{len(before)}.err"
        words = [sys.executable, "-m", "harness", "--debug", "run", "--agent", agent, "--task", "arithmetic", "--json"]
        with said.open("wb") as stderr:
            process = subprocess.Popen(
                [*words, *options], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=stderr
            )

        def found() -> list[Path]:
            if process.poll() is not None:
                pytest.fail(f"harness run ended with {process.returncode}:\n{said.read_text(errors='replace')}")
            return [path for path in self.home.runs.glob(f"*_{agent}_????") if path not in before]

        return LiveRun(process, RunFolder(await_true(found, what=f"the folder of {agent}'s run")[0]), said)


def left_behind(engine: DockerClient, home: Home) -> list[str]:
    """Containers, networks, loop devices and mounts of this home."""
    mine = {"label": f"{LABEL_HOME}={home.label}"}
    containers = [str(row["Names"]) for row in engine.api.containers(all=True, filters=mine)]
    networks = [str(row["Name"]) for row in engine.api.networks(filters=mine)]
    loops = [device for device, file in loop_devices().items() if file.is_relative_to(home.path)]
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(home.path) in line]
    return [*containers, *networks, *loops, *mounts]


def left_of_runs(engine: DockerClient, home: Home) -> list[str]:
    """The same without what belongs to the home itself: its grader, and the networks of that and of its gateways."""
    shared = ("grader", "core", "egress")
    return [name for name in left_behind(engine, home) if not any(word in name for word in shared)]
