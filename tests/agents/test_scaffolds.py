"""Each agent of the checkout, whole: a scripted LLM drives it through the gateway, it trains, submits, is graded."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from docker import DockerClient
from docker.errors import APIError

from tests.agents.conftest import AGENTS, PRICE, Llm
from tests.agents.scripts import KEY, LOOKED, OTHER_SCRIPTS
from tests.e2e.live import ROOT, Harness, LiveRun, await_true

pytestmark = [pytest.mark.agents, pytest.mark.docker, pytest.mark.timeout(1800)]

# The quickest two are in the fixed tier.
IN_FIXED_TIER = ("claude", "codex")
CASES = [pytest.param(name, marks=() if name in IN_FIXED_TIER else (pytest.mark.slow,)) for name in AGENTS]
TIMEOUT_S = 300
# init, timeout, launch.py
STARTERS = 3


@dataclass(frozen=True)
class Played:
    """A run that is over: what it printed, its folder, what Docker told of its container, and what the harness said."""

    agent_id: str
    facts: dict[str, Any]
    folder: Path
    seen: str
    said: str


@pytest.fixture(scope="module", params=CASES)
def played(request: pytest.FixtureRequest, harness: Harness, llm: Llm, engine: DockerClient) -> Played:
    agent_id = str(request.param)
    config = yaml.safe_load((ROOT / "agents" / agent_id / "config.yaml").read_text())
    provider = config["llm"] if isinstance(config["llm"], str) else config["llm"][0]
    run = harness.start(agent_id, "--timeout", str(TIMEOUT_S), "--limit", "60", *llm.options(agent_id, provider))
    seen = from_outside(engine, run)
    return Played(agent_id, run.conclude(1200), run.folder.path, seen, run.words)


def from_outside(engine: DockerClient, run: LiveRun) -> str:
    """All that Docker tells about the agent's container while its client runs."""
    name = f"harness-{run.run_id}-agent"

    def processes() -> Any:
        assert run.process.poll() is None, run.words
        try:
            found = engine.api.top(name)
        except APIError:
            return None
        # Not only what starts the client.
        return found if len(found["Processes"]) > STARTERS else None

    top = await_true(processes, 900, "the agent's container")
    return json.dumps([engine.api.inspect_container(name), top])


def files(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, unpacked."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    return {path: gzip.decompress(data) if path.suffix == ".gz" else data for path, data in found.items()}


def test_it_is_graded(played: Played) -> None:
    facts = played.facts
    assert (facts["verdict"], facts["ended_by"]) == ("graded", "finished"), (facts, played.said[-3000:])
    assert [one["state"] for one in facts["submissions"]][:2] == ["scored", "scored"]


def test_what_is_metered_is_what_the_llm_reported(played: Played, harness: Harness, llm: Llm) -> None:
    (row,) = harness.rows(
        "select count(*) as calls, sum(input_tokens) as input, sum(output_tokens) as output, "
        f"sum(cached_tokens) as cached, sum(cost_usd) as cost from llm_call where run_id = '{played.folder.name}'"
    )
    cost = row.pop("cost")
    assert row == llm.reported(played.agent_id)
    fresh = row["input"] - row["cached"]
    usd = (fresh * PRICE["input"] + row["cached"] * PRICE["cached"] + row["output"] * PRICE["output"]) / 1e6
    assert cost == pytest.approx(usd)


def test_the_key_is_not_where_the_agent_is(played: Played) -> None:
    assert KEY not in played.seen
    looked = [found for data in files(played.folder).values() for found in re.findall(LOOKED, data)]
    assert looked, "the agent did not look"
    assert {(in_files, in_processes) for in_files, in_processes, _ in looked} == {(b"0", b"0")}
    # It would have found what is there.
    assert all(int(token) > 0 for _, _, token in looked)
    # All else in its container is the image, made before there was a key.
    assert '"ReadonlyRootfs": true' in played.seen


def test_the_key_is_in_no_file_of_the_run(played: Played, harness: Harness) -> None:
    assert [path for path, data in files(harness.home.path).items() if KEY.encode() in data] == []


def test_its_own_log_is_kept_and_read(played: Played, harness: Harness) -> None:
    native = [path for path in (played.folder / "trajectory" / "native").rglob("*") if path.is_file()]
    assert native
    assert all(path.stat().st_size for path in native)
    told = harness.ask("logs", played.folder.name, "--trajectory")
    if played.agent_id not in OTHER_SCRIPTS:
        said = [step["message"] for step in told["steps"] if step["source"] == "agent"]
        assert [text for text in said if text.startswith("I ")][-1] == "I look around."
        assert re.search(LOOKED, json.dumps(told).encode())
    assert told["final_metrics"]["extra"]["metered_by_gateway"]
