"""What every agent folder promises: the suite of `harness check agent`, without Docker; and what ours do besides."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import catalog
from harness.authoring.agent_suite import check_agent

ROOT = Path(__file__).resolve().parents[2]
IDS = sorted(folder.parent.name for folder in (ROOT / "agents").glob("*/config.yaml"))


@pytest.mark.parametrize("agent_id", IDS)
def test_the_folder_passes_its_contract_suite(agent_id: str) -> None:
    report = check_agent(catalog.agent_at(ROOT / "agents" / agent_id), ROOT, "tried on Docker", lambda result: None)
    assert [(check.name, check.what, check.fix) for check in report.failed] == []


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
