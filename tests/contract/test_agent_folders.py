"""What every agent folder promises (contracts.md section 5)."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

from harness import catalog
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings(root=ROOT)
IDS = sorted(folder.parent.name for folder in (ROOT / "agents").glob("*/config.yaml"))


@pytest.mark.parametrize("agent_id", IDS)
def test_config_is_valid_and_says_what_the_agent_does(agent_id: str) -> None:
    agent = catalog.find_agent(SETTINGS, agent_id)
    assert agent.id == agent_id
    assert len(agent.config.description) > 20


@pytest.mark.parametrize("agent_id", IDS)
def test_start_is_executable_and_parses(agent_id: str) -> None:
    agent = catalog.find_agent(SETTINGS, agent_id)
    start = agent.path / agent.config.start
    assert os.access(start, os.X_OK)
    assert start.read_bytes().startswith(b"#!/usr/bin/env bash\n")
    checked = subprocess.run(["bash", "-n", str(start)], capture_output=True, text=True, check=False, timeout=30)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("agent_id", IDS)
def test_nothing_in_it_imports_the_harness(agent_id: str) -> None:
    for path in (ROOT / "agents" / agent_id).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "harness" for name in names), path
    text = (ROOT / "agents" / agent_id / "start.sh").read_text()
    assert "HARNESS_" not in text


def test_noop_ends_at_once_without_any_environment() -> None:
    start = ROOT / "agents" / "noop" / "start.sh"
    ended = subprocess.run([str(start)], env={"PATH": os.environ["PATH"]}, check=False, timeout=10)
    assert ended.returncode == 0


def test_oracle_says_so_where_it_has_no_checkpoint(tmp_path: Path) -> None:
    start = ROOT / "agents" / "oracle" / "start.sh"
    env = {"PATH": os.environ["PATH"], "TASK": "unheard-of", "OUTPUT_DIR": str(tmp_path), "MODEL_PATH": str(tmp_path)}
    ended = subprocess.run([str(start)], env=env, capture_output=True, text=True, check=False, timeout=10)
    assert ended.returncode == 3
    assert "no checkpoint for benchmark 'unheard-of'" in ended.stderr
