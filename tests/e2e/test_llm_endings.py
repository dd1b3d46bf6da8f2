"""How runs end that drive an LLM: each bad ending has its own verdict and words, and nothing of it is left behind.

All of them run at a time, a few in parallel, with an LLM that plays a script for each.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from docker import DockerClient

from harness.sandbox.compose import grader_container
from harness.sandbox.containers import ZONE_GATEWAY, find_container
from tests.e2e.live import Harness, left_of_runs
from tests.e2e.mortal import MortalRun, soon
from tests.e2e.provider import MODEL, Provider, Step, say

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

PARALLEL = 6
TIMEOUT_S = 150
SUBMIT = {"do": "submit", "name": "v1"}
END = {"do": "end", "code": 0}
STUBBORN = {"do": "stubborn"}
NOTHING = say()
Facts = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One run: what its LLM does, and how it is to end; `words` are part of the detail."""

    script: tuple[Step, ...]
    verdict: str
    ended_by: str
    words: str = ""
    options: tuple[str, ...] = ()
    calls: int | None = None


CASES = {
    # The longest first.
    "time_out": Case(
        (say({"do": "patience", "seconds": 62}), Step(hang_s=90)), "infra_void", "infrastructure", "in time", calls=2
    ),
    "continued": Case(
        (say({"do": "end", "code": 3}), say(SUBMIT), say({"do": "end_for_good"})),
        "graded", "finished", options=("--continue", "1"), calls=3,
    ),
    "storm_of_429_for_ever": Case((say(), Step(status=429)), "infra_void", "infrastructure", "answered 429", calls=2),
    "storm_of_503_for_ever": Case((Step(status=503),), "infra_void", "infrastructure", "answered 503", calls=1),
    "stubborn": Case(
        (say(STUBBORN), NOTHING), "no_submission", "budget", "4 of 4 requests", ("--budget-requests", "4"), calls=4
    ),
    "respawning": Case((say({"do": "background", "what": "respawn"}, END),), "no_submission", "finished", calls=1),
    "training": Case((say({"do": "background", "what": "train"}, END),), "graded", "finished", calls=1),
    "usd": Case(
        (say(SUBMIT), say(input_tokens=10**6)), "graded", "budget", "of 0.05 USD", ("--budget-usd", "0.05"), calls=2
    ),
    "tokens": Case((NOTHING,), "no_submission", "budget", "330 of 300 tokens", ("--budget-tokens", "300"), calls=3),
    "requests": Case((NOTHING,), "no_submission", "budget", "2 of 2 requests", ("--budget-requests", "2"), calls=2),
    "quota_gone": Case(
        (say(), Step(status=429, code="insufficient_quota")), "infra_void", "infrastructure", "nothing left to spend"
    ),
    "key_refused": Case((Step(status=401),), "infra_void", "infrastructure", "refuses the key", calls=1),
    "storm_absorbed": Case(
        (Step(status=429), Step(status=429), Step(status=503), say(SUBMIT, END)), "graded", "finished", calls=1
    ),
    "cut": Case((say(), Step(is_cut=True)), "infra_void", "infrastructure", "broke off its answer", calls=2),
    # Every attempt at the agent's last request fails, and then the provider is asked its first one again.
    "crafted": Case(
        (say({"do": "talk", "bytes": 3000}), Step(status=500, is_for_larger=True)),
        "agent_failed",
        "crash",
        "answered another",
        calls=2,
    ),
    "own_fault": Case((say(), Step(status=400)), "agent_failed", "crash", "exit code 1", calls=2),
    "large_prompt": Case(
        (say({"do": "talk", "bytes": 300_000}), say(SUBMIT, END)), "graded", "finished", calls=2
    ),
    "nothing_done": Case((say(END),), "no_submission", "finished", calls=1),
}  # fmt: skip


# For runs whose harness, gateway and grader die under them; what they ask for is a while of work.
BROKEN = ("deaths", "stopped")
LONG = (say(STUBBORN), *[say({"do": "nap", "seconds": 1})] * 12, say(END))


@dataclass(frozen=True)
class Ended:
    """A run that is over: what `harness run --json` printed, and its folder."""

    facts: Facts
    folder: Path
    said: str

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("agent*.log")))


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider({**{name: case.script for name, case in CASES.items()}, **dict.fromkeys(BROKEN, LONG)})
    with found.serving():
        yield found


@pytest.fixture(scope="module")
def endings(harness: Harness, provider: Provider) -> dict[str, Ended]:
    one_at_a_time = Lock()

    def play(name: str) -> Ended:
        llm = ("--llm", provider.url(name), "--llm-model", MODEL)
        # A run is known by the folder that is new.
        with one_at_a_time:
            run = harness.start("driven", "--timeout", str(TIMEOUT_S), *llm, *CASES[name].options)
        return Ended(run.conclude(), run.folder.path, run.words)

    # The baseline, once: all others find it in the cache.
    first, *others = reversed(CASES)
    with ThreadPoolExecutor(PARALLEL) as pool:
        return {first: play(first), **dict(zip(others[::-1], pool.map(play, others[::-1]), strict=True))}


@pytest.mark.parametrize("name", CASES)
def test_it_has_the_right_ending(endings: dict[str, Ended], name: str) -> None:
    case, facts = CASES[name], endings[name].facts
    told = (facts["verdict"], facts["ended_by"])
    assert told == (case.verdict, case.ended_by), (facts["detail"], endings[name].log, endings[name].said[-2000:])
    assert case.words in (facts["detail"] or "")


@pytest.mark.parametrize("name", CASES)
def test_every_call_is_in_the_record(endings: dict[str, Ended], name: str) -> None:
    case, llm = CASES[name], endings[name].facts["llm"]
    if case.calls is not None:
        assert llm["calls"] == case.calls
    # The model is in no price table: what the budget was charged is no cost.
    assert llm["is_price_listed"] is False


def test_nothing_of_the_runs_is_left(endings: dict[str, Ended], engine: DockerClient, harness: Harness) -> None:
    assert left_of_runs(engine, harness.home) == []
    ids = {ended.facts["run_id"] for ended in endings.values()}
    assert {run_id for run_id in ids if is_alive(run_id)} == set()


def is_alive(run_id: str) -> bool:
    """Whether a process of the run's agent is there, in whatever container."""
    mark = f"RUN_ID={run_id}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("name", CASES)
def test_calls_are_kept_and_secrets_are_not(endings: dict[str, Ended], harness: Harness, name: str) -> None:
    folder = endings[name].folder
    assert recorded_numbers(harness, folder) == kept_numbers(folder)
    assert not {path.name for path in folder.iterdir()} & {".token", ".llm_token", "fs", "workspace.img"}
    assert not (harness.home.sockets / "runs" / folder.name).exists()


def kept_numbers(folder: Path) -> list[int]:
    """Numbers of the calls that the gateway wrote down."""
    lines = (folder / "llm" / "runs" / folder.name / "calls.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["ended"]["number"] for line in lines if line.startswith('{"ended"'))


def recorded_numbers(harness: Harness, folder: Path) -> list[int]:
    rows = harness.rows(f"select number from llm_call where run_id = '{folder.name}' order by number")
    return [row["number"] for row in rows]


def test_a_storm_is_absorbed_before_the_agent_hears_of_it(endings: dict[str, Ended], provider: Provider) -> None:
    assert "no answer" not in endings["storm_absorbed"].log
    assert provider.asked["storm_absorbed"] == 4


def test_a_large_prompt_arrives_whole(endings: dict[str, Ended], provider: Provider) -> None:
    assert provider.largest["large_prompt"] > 300_000


def test_what_trains_in_the_background_is_waited_for(endings: dict[str, Ended]) -> None:
    ended = endings["training"]
    assert "waiting for its background work: python3" in ended.log
    assert [one["model_path"] for one in ended.facts["submissions"]] == ["output/trained"]


def test_what_starts_itself_again_does_not_hold_the_run(endings: dict[str, Ended]) -> None:
    ended = endings["respawning"]
    assert "not waiting any longer, nothing was at work for 8 s" in ended.log
    assert ended.facts["duration_s"] < TIMEOUT_S / 2


def test_an_agent_that_does_not_listen_is_killed(endings: dict[str, Ended]) -> None:
    ended = endings["stubborn"]
    assert "402" in ended.log
    assert ended.facts["duration_s"] < TIMEOUT_S / 2


def test_an_agent_that_ended_early_went_on(endings: dict[str, Ended], harness: Harness) -> None:
    ended = endings["continued"]
    assert ended.facts["continuations"] == 3
    assert [one["state"] for one in ended.facts["submissions"]] == ["scored"]
    assert "part 0" in (ended.folder / "agent.1.log").read_text()
    assert "part 1" in (ended.folder / "agent.2.log").read_text()
    rows = harness.rows(
        f"select detail from event where kind = 'continuation' and run_id = '{ended.folder.name}' order by id"
    )
    details = [json.loads(row["detail"]) for row in rows]
    assert [(one["number"], one["exit_code"]) for one in details] == [(1, 3), (2, 0), (3, 0)]
    assert TIMEOUT_S > details[0]["left_s"] > details[2]["left_s"] > 60
    assert "called no LLM and submitted nothing" in ended.said


@pytest.fixture
def mortal(request: pytest.FixtureRequest, harness: Harness, engine: DockerClient, provider: Provider) -> MortalRun:
    """A run that has made its first calls, and has them in the record."""
    llm = ("--llm", provider.url(request.param), "--llm-model", MODEL)
    run = MortalRun(harness, engine, "--timeout", str(TIMEOUT_S), *llm, agent="driven")
    soon(lambda: calls_of(run) >= 3, "the first calls in the record")
    return run


def calls_of(run: MortalRun) -> int:
    return len(run.rows("select number from llm_call where run_id = ?", run.run_id))


@pytest.mark.parametrize("mortal", ["deaths"], indirect=True)
def test_calls_are_recorded_once_whoever_dies(mortal: MortalRun, harness: Harness, engine: DockerClient) -> None:
    mortal.kill()
    gateway, grader = (
        find_container(engine, harness.home, mortal.run_id, ZONE_GATEWAY),
        grader_container(engine, harness.home),
    )
    assert gateway is not None
    assert grader is not None
    engine.api.kill(gateway)
    before = calls_of(mortal)
    mortal.resume()
    soon(lambda: calls_of(mortal) > before + 1, "calls through the gateway that was started again")
    engine.api.kill(grader.container_id)
    facts = mortal.conclude()
    assert (facts["verdict"], facts["ended_by"]) == ("no_submission", "finished"), (facts["detail"], mortal.words)
    numbers = recorded_numbers(harness, mortal.folder.path)
    assert numbers == kept_numbers(mortal.folder.path)
    assert len(numbers) == len(set(numbers)) >= len(LONG)


@pytest.mark.parametrize("mortal", ["stopped"], indirect=True)
def test_a_stopped_run_goes_on_with_what_its_llm_has_cost(mortal: MortalRun, harness: Harness) -> None:
    assert mortal.send(signal.SIGTERM) == 130
    before = calls_of(mortal)
    mortal.resume()
    facts = mortal.conclude()
    assert (facts["verdict"], facts["ended_by"]) == ("no_submission", "finished"), (facts["detail"], mortal.words)
    assert facts["llm"]["calls"] > before >= 3
    assert recorded_numbers(harness, mortal.folder.path) == kept_numbers(mortal.folder.path)
