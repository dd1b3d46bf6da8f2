"""The agents of the checkout on a home of their own, with a scripted LLM that their gateways reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from docker import DockerClient
from scripted_llm import SCRIPTED, scripted_llm

from harness.home import Home
from tests.agents.scripts import KEY, name_of, script_of
from tests.e2e.conftest import engine, home
from tests.e2e.live import ROOT, Harness

__all__ = ["engine", "home"]

MODEL = "scripted"
PRICE = {"input": 1.0, "cached": 0.1, "cache_write": 1.25, "output": 10.0}
AGENTS = sorted(
    path.parent.name
    for path in (ROOT / "agents").glob("*/config.yaml")
    if not path.parent.name.startswith("_") and yaml.safe_load(path.read_text()).get("llm", "none") != "none"
)


@dataclass(frozen=True)
class Llm:
    """The scripted LLM; `url` ends where a provider's own would, before the version."""

    origin: str
    key_file: Path

    def options(self, agent_id: str, provider: str) -> tuple[str, ...]:
        """Of `harness run`."""
        version = "/v1" if provider == "openai" else ""
        url = f"{self.origin.replace('127.0.0.1', 'localhost')}/s/{name_of(agent_id)}{version}"
        return ("--llm", url, "--llm-model", MODEL, "--llm-key-file", str(self.key_file))

    def reported(self, agent_id: str) -> dict[str, int]:
        """What it told this agent that it has used, all calls together."""
        requests = httpx.get(f"{self.origin}/_log", trust_env=False).json()
        steps = [entry["step"] for entry in requests if entry.get("script") == name_of(agent_id) and "step" in entry]
        script = script_of(agent_id)
        # A call without tools plays no step: it gets a short text.
        said = [script[step]["usage"] if step >= 0 else {"input": 100, "output": 20, "cached": 0} for step in steps]
        return {
            "calls": len(steps),
            **{name: sum(usage[name] for usage in said) for name in ("input", "output", "cached")},
        }


@pytest.fixture(scope="session")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llm]:
    if not SCRIPTED.is_file():
        pytest.skip(f"no scripted LLM at {SCRIPTED}: set SCRIPTED_LLM")
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "key").write_text(KEY + "\n")
    (folder / "key").chmod(0o600)
    # On all addresses: gateways are in containers.
    with scripted_llm(folder, {name_of(agent_id): script_of(agent_id) for agent_id in AGENTS}, "0.0.0.0") as origin:
        yield Llm(origin, folder / "key")


@pytest.fixture(scope="session")
def harness(engine: DockerClient, home: Home, llm: Llm) -> Iterator[Harness]:
    folder = home.path.parent / "cwd"
    folder.mkdir()
    prices = home.path.parent / "prices.yaml"
    prices.write_text(yaml.safe_dump({"models": {MODEL: PRICE}}))
    harness = Harness(home, folder, home.path.parent / "agents", {"HARNESS_LLM_PRICES": str(prices)})
    harness.agents.mkdir()
    with harness.up():
        yield harness
