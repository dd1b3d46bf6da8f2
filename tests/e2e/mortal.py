"""Runs whose processes are killed: lives of one run's harness, what the record says, and orders to its agent."""

from __future__ import annotations

import itertools
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient
from docker.errors import APIError

from harness.domain.admin import SetPhase, StartClock
from harness.domain.runs import Phase
from harness.domain.specs import RunPlan
from harness.home import Home
from harness.runner.attempt import Attempt
from harness.runner.grader_client import GraderClient
from harness.runner.host import Host
from harness.sandbox.containers import find_container
from harness.sandbox.owner import current_owner
from harness.settings import Settings
from tests.e2e.live import COMMAND_TIMEOUT_S, NETWORK_RANGE, ROOT, Harness, left_behind

FAST_POLL_S = 0.005
# Processor time out of so many microseconds: enough to take a request in, and far too little to get on with it.
TRICKLE, DROPS, NO_LIMIT = (1_000, 50_000), (1_000, 1_000_000), (-1, 100_000)
Share = tuple[int, int]
AGENT = "obedient"
# Each checkpoint of this session is another one: which number of the first tensor is changed.
weights = itertools.count(100)


def soon(is_so: Callable[[], Any], what: str, timeout_s: float = 180) -> Any:
    """The first true value of `is_so`, looked at so often that what lasts a moment is seen."""
    deadline = time.monotonic() + timeout_s
    while not (value := is_so()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come about in {timeout_s:.0f} s")
        time.sleep(FAST_POLL_S)
    return value


class MortalRun:
    """One run through the lives of its harness."""

    def __init__(self, harness: Harness, engine: DockerClient, *options: str, agent: str = AGENT) -> None:
        self.harness, self.engine, self.home = harness, engine, harness.home
        self._life = 0
        live = harness.start(agent, *options)
        self.process, self.folder, self.said = live.process, live.folder, live.said
        self._orders = 0

    @property
    def run_id(self) -> str:
        return self.folder.path.name

    @property
    def words(self) -> str:
        """What the harness of this life has said."""
        return self.said.read_text(errors="replace")

    def kill(self) -> None:
        """As if the machine had lost the harness."""
        assert self.process.poll() is None, f"it had ended before it was to be killed:\n{self.words}"
        self.process.kill()
        self.process.communicate()

    def send(self, number: signal.Signals) -> int:
        """A signal that ends it; the exit code."""
        self.process.send_signal(number)
        self.process.communicate(timeout=COMMAND_TIMEOUT_S)
        return self.process.returncode

    def resume(self) -> None:
        """`harness resume` in the background: the next life."""
        self._life += 1
        self.said = self.harness.folder / f"{self.run_id}.{self._life}.err"
        words = [sys.executable, "-m", "harness", "--debug", "resume", self.run_id, "--json"]
        with self.said.open("wb") as stderr:
            self.process = subprocess.Popen(
                words,
                cwd=self.harness.folder,
                env=self.harness.environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def conclude(self) -> dict[str, Any]:
        """What this life prints at its end."""
        out, _ = self.process.communicate(timeout=COMMAND_TIMEOUT_S)
        assert out, f"{self.run_id} ended with {self.process.returncode}:\n{self.words[-4000:]}"
        facts: dict[str, Any] = json.loads(out)
        return facts

    def rows(self, sql: str, *arguments: object) -> list[dict[str, Any]]:
        """Rows of the record as they are this moment."""
        return rows(self.home, sql, *arguments)

    @property
    def row(self) -> dict[str, Any]:
        """The run's row; empty before it is registered."""
        return next(iter(self.rows("select * from run where run_id = ?", self.run_id)), {})

    def submission(self, number: int) -> dict[str, Any]:
        found = self.rows("select * from submission where run_id = ? and number = ?", self.run_id, number)
        return next(iter(found), {"state": None})

    def await_phase(self, phase: str) -> None:
        self._await(lambda: self.row.get("phase") == phase, f"phase {phase}")

    def await_state(self, number: int, state: str) -> None:
        self._await(lambda: self.submission(number)["state"] == state, f"submission {number} {state}")

    def _await(self, is_so: Callable[[], Any], what: str) -> Any:
        try:
            return soon(is_so, what)
        except pytest.fail.Exception:
            log = self.folder.agent_log.read_text()[-2000:] if self.folder.agent_log.exists() else ""
            pytest.fail(f"no {what}: {self.row}\nharness:\n{self.words[-3000:]}\nagent:\n{log}")

    def container(self, zone: str) -> str | None:
        return find_container(self.engine, self.home, self.run_id, zone)

    def await_container(self, zone: str) -> str:
        return str(self._await(lambda: self.container(zone), f"{zone} container"))

    def await_agent(self, life: int = 1) -> None:
        """The agent is at work, for the first time or started anew; what it said before is kept."""

        def is_at_work() -> bool:
            earlier = list(self.folder.path.glob("agent.*.log"))
            return len(earlier) == life - 1 and "at your orders" in self._log()

        self._await(is_at_work, f"agent at work in life {life}")

    def _log(self) -> str:
        return self.folder.agent_log.read_text() if self.folder.agent_log.exists() else ""

    def order(self, **order: Any) -> int:
        """Gives the agent something to do; the number of the order."""
        number, self._orders = self._orders, self._orders + 1
        folder = self.folder.workspace / "code" / "orders"
        self._await(folder.is_dir, "place for orders")
        stage = folder / f".{number}"
        stage.write_text(json.dumps(order))
        stage.chmod(0o644)
        stage.replace(folder / f"{number}.json")
        return number

    def submit(self) -> int:
        """Has the agent hand in a checkpoint that nobody handed in before."""
        self.await_workspace()
        return self.order(submit=next(weights))

    def answer(self, number: int) -> dict[str, Any]:
        """What the agent noted of an order."""
        path = self.folder.workspace / "code" / "answers" / f"{number}.json"
        self._await(path.exists, f"answer to order {number}")
        answer: dict[str, Any] = json.loads(path.read_text())
        return answer

    def await_workspace(self) -> None:
        """The grader sees the workspace, which it was given anew after a restart; until then it answers 503."""
        grader = GraderClient(self.home)
        self._await(lambda: not grader.status(self.run_id).needs_output, "grader with the workspace")

    @contextmanager
    def being_copied(self, number: int, grader: str) -> Iterator[int]:
        """Has a checkpoint handed in, which will be this submission, and holds it where it is being copied."""
        self.await_workspace()
        with slowed(self.engine, grader):
            order = self.order(submit=next(weights))
            self.await_state(number, "admitting")
            set_share(self.engine, grader, DROPS)
            yield order

    @contextmanager
    def being_scored(self, number: int) -> Iterator[int]:
        """Has a checkpoint handed in, which will be this submission, and holds it where it is being scored."""
        engine = self.await_container("inference")
        with slowed(self.engine, engine):
            order = self.submit()
            self.await_state(number, "scoring")
            set_share(self.engine, engine, DROPS)
            yield order

    def obeyed(self, **order: Any) -> dict[str, Any]:
        return self.answer(self.order(**order))

    def assert_scored_once(self, number: int, *, attempts: int | None = None) -> None:
        """Exactly one evaluation stands for a submission, with every item once."""
        row = self.submission(number)
        assert row["state"] == "scored", row
        assert attempts in (None, row["attempts"]), row
        made = self.rows(
            "select id, all_items from evaluation where tree_hash = ? and task_protocol = ?",
            row["tree_hash"],
            self.row["task_protocol"],
        )
        assert [one["id"] for one in made] == [row["evaluation_id"]]
        items = self.rows(
            "select count(*) as n, count(distinct item_id) as m from item_score where evaluation_id = ?", made[0]["id"]
        )
        assert items == [{"n": made[0]["all_items"], "m": made[0]["all_items"]}]
        assert made[0]["all_items"] == self.row["limit_items"]

    def assert_nothing_left(self, *, is_kept: bool = False) -> None:
        """No object of the run is on the machine; its workspace's image only if it is to be resumed."""
        assert traces(self.engine, self.home, self.run_id) == []
        names = {path.name for path in self.folder.path.iterdir()}
        assert ("workspace.img" in names) == is_kept, names
        assert is_kept or not names & {"fs", ".token"}, names

    def die_between_create_and_start(self) -> None:
        """What a harness leaves that is killed when the agent's container is made and not yet started."""
        plan = RunPlan.model_validate_json((self.folder.path / "plan.json").read_text())
        settings = Settings(home=self.home.path, root=ROOT, network_range=NETWORK_RANGE)
        with Host.open(settings, lambda event: None) as host:
            objects, grader = host.objects(plan, self.folder.token.read_text()), GraderClient(self.home)
            grader.set_phase(self.run_id, SetPhase(phase=Phase.AGENT, owner=current_owner()))
            objects.prepare()
            objects.create_agent(plan.limits.timeout_s)
            now = datetime.now(UTC)
            clock = StartClock(started_at=now, deadline=now + timedelta(seconds=plan.limits.timeout_s))
            grader.start_clock(self.run_id, clock)
            Attempt.load(self.folder).started().save(self.folder)

    def end(self) -> None:
        """Nothing of it goes on, however the test ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        if self.row and self.row["verdict"] is None:
            self.harness.call("stop", self.run_id)


def rows(home: Home, sql: str, *arguments: object) -> list[dict[str, Any]]:
    """Rows of a home's database, read beside its writer."""
    if not home.db.exists():
        return []
    with closing(sqlite3.connect(f"file:{home.db}?mode=ro", uri=True, timeout=30)) as link:
        link.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in link.execute(sql, arguments)]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


def traces(engine: DockerClient, home: Home, run_id: str) -> list[str]:
    """What there is of a run outside of its folder, and what it has mounted."""
    mine = [name for name in left_behind(engine, home) if run_id in name]
    folder = home.runs / run_id
    mine += [
        str(entry) for entry in Path("/sys/block").glob("loop*/loop/backing_file") if str(folder) in text_of(entry)
    ]
    sockets = home.sockets / "runs" / run_id
    return [*mine, *([str(sockets)] if sockets.exists() else [])]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@contextmanager
def slowed(engine: DockerClient, container: str) -> Iterator[None]:
    """A container that hardly gets any processor: what it is in the middle of lasts."""
    set_share(engine, container, TRICKLE)
    try:
        yield
    finally:
        # It may have been killed and removed, which was the purpose.
        with suppress(APIError):
            set_share(engine, container, NO_LIMIT)


def set_share(engine: DockerClient, container: str, share: Share) -> None:
    engine.api.update_container(container, cpu_quota=share[0], cpu_period=share[1])


def main_pid(engine: DockerClient, container: str) -> int:
    """The container's first process, by its number on the host."""
    return int(engine.api.inspect_container(container)["State"]["Pid"])


def forget_data(home: Home, task: str = "arithmetic") -> None:
    """Makes the next run prepare the benchmark's data anew."""
    for receipt in (home.cache / "data").glob(f"{task}-*.json"):
        receipt.unlink()
    for store in (home.train, home.eval):
        for folder in (store / task).glob("*"):
            folder.rename(folder.with_name(f"{folder.name}.{time.monotonic_ns()}"))
