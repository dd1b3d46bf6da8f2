"""Death at every point: harness, grader and engine are killed, people press Ctrl-C, and every run ends as it should."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from docker import DockerClient

from harness.sandbox.compose import grader_container
from harness.sandbox.engine import LABEL_HOME, LABEL_RUN, LABEL_ZONE
from tests.e2e.live import Harness
from tests.e2e.mortal import MortalRun, forget_data, main_pid, soon, traces

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
LIMIT = 20
TIMEOUT_S = 300
# `paper`: without a quota on submissions.
COMMON = ("--protocol", "paper", "--disk-mb", "200")
OPTIONS = (*COMMON, "--limit", str(LIMIT), "--timeout", str(TIMEOUT_S))
Start = Callable[..., MortalRun]


@dataclass(frozen=True)
class Strangers:
    """Objects that are not this home's: without any label of ours, and with those of another home."""

    containers: dict[str, str]
    networks: list[str]
    volumes: list[str]


@pytest.fixture(scope="module")
def strangers(engine: DockerClient, product_images: dict[str, str]) -> Iterator[Strangers]:
    mark = secrets.token_hex(3)
    foreign = {LABEL_HOME: f"foreign{mark}", LABEL_RUN: f"run-{mark}", LABEL_ZONE: "agent"}
    found = Strangers({}, [], [])
    try:
        for name, labels in ((f"stranger-{mark}", {}), (f"stranger-{mark}-labelled", foreign)):
            container = engine.api.create_container(
                product_images["agent"], ["sleep", "3600"], name=name, labels=labels
            )
            found.containers[str(container["Id"])] = ""
            engine.api.start(container["Id"])
            found.networks.append(str(engine.api.create_network(name, internal=True, labels=labels)["Id"]))
            found.volumes.append(str(engine.api.create_volume(name, labels=labels)["Name"]))
        for container in found.containers:
            found.containers[container] = engine.api.inspect_container(container)["State"]["StartedAt"]
        yield found
    finally:
        for container in found.containers:
            engine.api.remove_container(container, force=True)
        for network in found.networks:
            engine.api.remove_network(network)
        for volume in found.volumes:
            engine.api.remove_volume(volume)


def assert_untouched(engine: DockerClient, strangers: Strangers) -> None:
    for container, started_at in strangers.containers.items():
        state = engine.api.inspect_container(container)["State"]
        assert (state["Running"], state["StartedAt"]) == (True, started_at)
    for network in strangers.networks:
        assert engine.api.inspect_network(network)["Id"] == network
    for volume in strangers.volumes:
        assert engine.api.inspect_volume(volume)["Name"] == volume


@pytest.fixture
def start(harness: Harness, engine: DockerClient, strangers: Strangers) -> Iterator[Start]:
    """Starts runs; at the end none of them goes on, and nobody else's things have been touched."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Tests in a shell's background: Ctrl-C must reach their children all the same.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    runs: list[MortalRun] = []

    def start_run(*options: str) -> MortalRun:
        runs.append(MortalRun(harness, engine, *(options or OPTIONS)))
        return runs[-1]

    yield start_run
    for run in runs:
        run.end()
    assert_untouched(engine, strangers)


def grader_of(harness: Harness, engine: DockerClient) -> str:
    found = grader_container(engine, harness.home)
    assert found is not None
    return found.container_id


def test_a_run_outlives_its_harness_in_every_phase(start: Start, harness: Harness, engine: DockerClient) -> None:
    """One run, killed again and again with SIGKILL and taken up by `harness resume` each time."""
    forget_data(harness.home)
    # So many items that being scored lasts long enough to be seen.
    run = start(*COMMON, "--limit", "400", "--timeout", "600")

    # preparing: nothing but the draft is there
    assert not (run.folder.path / "plan.json").exists()
    run.kill()
    assert run.row == {}
    run.resume()
    # preparing: the benchmark's data script is running
    run.await_container("data")
    run.kill()
    run.resume()
    # preparing: planned, and the grader does not know of it
    soon((run.folder.path / "plan.json").exists, "plan")
    run.kill()
    assert run.row == {}
    # preparing: the sandbox is being proven
    (harness.home.cache / "doctor.json").unlink(missing_ok=True)
    run.resume()
    soon(lambda: len(doctors(engine, harness)) == 2, "doctors")
    run.kill()
    assert run.row == {}
    run.resume()
    # preparing: the workspace's file system is being made
    soon(lambda: list(run.folder.path.glob("workspace.img*")), "workspace")
    run.kill()
    assert run.row["phase"] == "preparing"
    assert doctors(engine, harness) == []
    assert list(harness.home.runs.glob("doctor-*")) == []
    run.resume()
    # baseline: the services are starting, the second of them is not even there
    run.await_container("inference")
    run.kill()
    assert run.row["phase"] == "baseline"
    run.resume()
    # baseline: it is being scored
    soon(lambda: baseline_state(run) == "scoring", "baseline being scored")
    run.kill()
    # agent: between create and start
    run.die_between_create_and_start()
    run.resume()
    run.await_agent()
    assert run.row["phase"] == "agent"
    assert [path.name for path in run.folder.path.glob("agent*.log")] == ["agent.log"]
    # agent: it runs, and runs on
    before = run.row
    run.kill()
    container = run.container("agent")
    assert container is not None
    run.resume()
    soon(lambda: run.row["owner"] != before["owner"], "new owner")
    # agent: a checkpoint is being copied, and the grader dies as well
    grader = grader_of(harness, engine)
    with run.being_copied(1, grader) as cut:
        run.kill()
        engine.api.kill(grader)
    run.resume()
    assert run.answer(cut)["status"] in (0, 503)
    run.await_state(1, "scored")
    assert run.container("agent") == container
    assert run.row["deadline"] == before["deadline"]
    # agent: a checkpoint is being scored, which goes on without a harness
    with run.being_scored(2) as waiting:
        run.kill()
    assert run.answer(waiting)["status"] == 200
    run.resume()
    # finishing: the agent has ended, its last checkpoint is being scored
    run.obeyed(litter=3000)
    with run.being_scored(3):
        run.order(end=0)
        run.await_phase("finishing")
        soon(lambda: run.row["ended_by"], "end of the agent")
        run.kill()
    run.resume()
    # collecting: before the record is closed
    run.await_phase("collecting")
    run.kill()
    assert run.row["verdict"] is None
    run.resume()
    # collecting: the record is closed, its objects are still there
    soon(lambda: run.row["verdict"], "verdict")
    run.kill()
    assert traces(engine, harness.home, run.run_id) != []
    run.resume()

    facts = run.conclude()
    assert (facts["verdict"], facts["ended_by"]) == ("graded", "finished")
    for number in (1, 2, 3):
        run.assert_scored_once(number)
    assert len(list((run.folder.collected / "code" / "litter").iterdir())) == 3000
    assert (run.folder.path / "record.json").is_file()
    run.assert_nothing_left()


def doctors(engine: DockerClient, harness: Harness) -> list[str]:
    """Containers in which the sandbox is being proven."""
    found = engine.api.containers(all=True, filters={"label": f"{LABEL_HOME}={harness.home.label}"})
    return [str(row["Id"]) for row in found if row["Labels"].get(LABEL_RUN, "").startswith("doctor-")]


def baseline_state(run: MortalRun) -> str | None:
    found = run.rows("select state from baseline where run_id = ?", run.run_id)
    return found[0]["state"] if found else None


def test_the_next_run_sees_to_what_dead_ones_left(start: Start, harness: Harness, engine: DockerClient) -> None:
    """At once: an agent that works on, one that crashed, one whose time was up, and an end that was not tidied."""
    working, crashed, ended = start(), start(), start()
    for run in (working, crashed, ended):
        run.await_agent()
    late = start(*COMMON, "--limit", str(LIMIT), "--timeout", "8")
    late.await_agent()
    for run in (late, working, crashed):
        run.kill()
    crashed.order(end=3)
    ended.order(end=0)
    soon(lambda: ended.row["verdict"], "verdict")
    ended.kill()
    soon(lambda: not is_running(engine, late.container("agent")), "end of time")
    soon(lambda: not is_running(engine, crashed.container("agent")), "crash")
    next_run = start()
    next_run.await_agent()
    ended.assert_nothing_left()
    for run, verdict, ended_by in ((late, "no_submission", "deadline"), (crashed, "agent_failed", "crash")):
        soon(lambda run=run: run.row["verdict"], "verdict")
        assert (run.row["verdict"], run.row["ended_by"]) == (verdict, ended_by)
    assert working.row["verdict"] is None
    assert working.obeyed(get="/time")["status"] == 200
    for run in (working, next_run):
        run.order(end=0)
    assert next_run.conclude()["verdict"] == "no_submission"
    soon(lambda: working.row["verdict"], "verdict")
    for run in (working, crashed, late, next_run):
        soon(lambda run=run: not run.folder.image.exists(), "removal")
        soon(lambda run=run: not run.folder.token.exists(), "tidiness")
        run.assert_nothing_left()


def is_running(engine: DockerClient, container: str | None) -> bool:
    assert container is not None
    return bool(engine.api.inspect_container(container)["State"]["Running"])


def test_the_queue_goes_on_after_deaths_of_grader_and_engine(
    start: Start, harness: Harness, engine: DockerClient
) -> None:
    run = start()
    run.await_agent()
    assert run.answer(run.submit())["status"] == 200
    grader = grader_of(harness, engine)

    # The grader's process dies while it copies: Docker starts it again, the harness hands the workspace over again.
    with run.being_copied(2, grader) as cut:
        os.kill(main_pid(engine, grader), signal.SIGKILL)
        assert run.submission(2)["state"] == "admitting"
        soon(lambda: is_running(engine, grader), "grader")
    assert run.answer(cut)["status"] in (0, 503)
    run.await_state(2, "scored")
    assert "taken up again after a restart" in run.submission(2)["note"]

    # It is killed by hand while it scores: Docker does not start it again, the harness does.
    with run.being_scored(3) as cut:
        waiting = run.submit()
        run.await_state(4, "queued")
        engine.api.kill(grader)
        assert run.submission(3)["state"] == "scoring"
    assert run.answer(cut)["status"] in (0, 503)
    assert run.answer(waiting)["status"] in (0, 503)
    run.await_state(4, "scored")
    run.assert_scored_once(3, attempts=2)
    run.assert_scored_once(4, attempts=1)

    # The engine is killed in the middle of an evaluation: it is made again, by a new engine, for the one who waits.
    engine_container = run.await_container("inference")
    with run.being_scored(5) as waiting:
        engine.api.kill(engine_container)
    assert run.answer(waiting)["body"]["submission_id"] == 5
    run.assert_scored_once(5, attempts=2)
    assert run.container("inference") != engine_container
    assert "== inference ended at" in (run.folder.path / "services.log").read_text()
    # And the scorer, alone.
    with run.being_scored(6) as waiting:
        engine.api.kill(run.await_container("scorer"))
    assert run.answer(waiting)["body"]["submission_id"] == 6
    run.assert_scored_once(6, attempts=2)

    found = run.obeyed(get="/submissions")["body"]
    assert [one["state"] for one in found["submissions"]] == ["scored"] * 6
    assert all(one["reply"] is not None for one in found["submissions"])
    for number in (1, 2):
        run.assert_scored_once(number, attempts=1)

    # Ctrl-C when the agent has ended and its last checkpoint is being scored: it is scored when the run is taken up.
    with run.being_scored(7):
        run.order(end=0)
        soon(lambda: run.row["ended_by"], "end of the agent")
        assert run.send(signal.SIGINT) == 130
    assert (run.row["verdict"], run.row["ended_by"]) == (None, "finished")
    run.assert_nothing_left(is_kept=True)
    run.resume()
    facts = run.conclude()
    assert (facts["verdict"], facts["ended_by"], len(facts["submissions"])) == ("graded", "finished", 7)
    run.assert_scored_once(7)
    run.assert_nothing_left()


def test_a_stopped_run_goes_on_with_the_time_that_was_left(start: Start, harness: Harness) -> None:
    run = start()
    run.await_agent()

    # Ctrl-C once.
    assert run.send(signal.SIGINT) == 130
    assert f"harness resume {run.run_id}" in run.words
    assert (run.row["verdict"], run.row["ended_by"]) == ("interrupted", "stopped")
    run.assert_nothing_left(is_kept=True)
    used = used_s(run)
    assert "at your orders from 0 on" in (run.folder.path / "agent.log").read_text()

    # The run goes on where it was; it is stopped from another terminal, with something scored.
    resumed = time.monotonic()
    run.resume()
    run.await_agent(2)
    first = run.submit()
    assert run.answer(first)["status"] == 200
    assert used <= used_s(run) <= used + time.monotonic() - resumed
    done = harness.call("stop", run.run_id)
    assert done.returncode == 0, done.stderr
    run.process.communicate(timeout=120)
    assert run.process.returncode == 130
    assert (run.row["verdict"], run.row["ended_by"]) == ("graded", "stopped")
    run.assert_nothing_left(is_kept=True)
    used_then = used_s(run)

    # Twice, the second time in the middle of the stop, which an agent that is deaf to TERM makes long.
    run.resume()
    run.await_agent(3)
    assert run.row["verdict"] is None
    run.obeyed(deaf=1)
    run.process.send_signal(signal.SIGTERM)
    soon(lambda: "stopping; everything is kept" in run.words, "stop")
    assert run.send(signal.SIGINT) == 130
    assert run.row["verdict"] is None

    # What was broken off is finished, and then the run goes on.
    run.resume()
    run.await_agent(4)
    left = time_left(run)
    assert left <= TIMEOUT_S - used_then
    assert len(list(run.folder.path.glob("agent.*.log"))) == 3
    run.order(end=0)
    facts = run.conclude()
    assert (facts["verdict"], facts["ended_by"]) == ("graded", "finished")
    run.assert_scored_once(1, attempts=1)
    run.assert_nothing_left()


def test_a_run_that_is_stopped_twice_and_left_alone_stays_stopped(start: Start, harness: Harness) -> None:
    """The next run finishes the stop that was broken off; it does not start again what a person has stopped."""
    run = start()
    run.await_agent()
    run.obeyed(deaf=1)
    run.process.send_signal(signal.SIGINT)
    soon(lambda: "stopping; everything is kept" in run.words, "stop")
    assert run.send(signal.SIGINT) == 130
    next_run = start()
    soon(lambda: run.row["verdict"], "verdict")
    assert (run.row["verdict"], run.row["ended_by"]) == ("interrupted", "stopped")
    next_run.await_agent()
    next_run.kill()
    # Nobody drives it: it can be stopped all the same.
    done = harness.call("stop", next_run.run_id)
    assert done.returncode == 0, done.stderr
    assert next_run.row["verdict"] == "interrupted"
    for one in (run, next_run):
        soon(lambda one=one: traces(one.engine, one.home, one.run_id) == [], "removal")
        one.assert_nothing_left(is_kept=True)


def used_s(run: MortalRun) -> float:
    """Agent time that is used up, as the record tells it."""
    (row,) = run.rows(
        "select timeout_s - (julianday(deadline) - julianday(coalesce(agent_ended_at, 'now'))) * 86400 as used"
        " from run where run_id = ?",
        run.run_id,
    )
    return float(row["used"])


def time_left(run: MortalRun) -> float:
    answer: dict[str, Any] = run.obeyed(get="/time")["body"]
    return float(answer["remaining"])
