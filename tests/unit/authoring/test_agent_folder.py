"""The contract suite's look at an agent's folder, and the folder that a new agent begins with: nothing is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import catalog
from harness.authoring.agent_image import stands_on_base
from harness.authoring.agent_suite import DOCKER_CHECKS, FOLDER_CHECKS, check_agent
from harness.authoring.template_folder import write_agent
from harness.authoring.verdicts import CheckResult, Outcome
from harness.errors import PrerequisiteError, UsageError
from harness.trajectory.native import READERS

ROOT = Path(__file__).resolve().parents[3]
CONFIG = """\
name: Mine
description: A loop of its own around one LLM.
llm: openai
resume: start.sh
trajectory: trajectory/*.jsonl
trajectory_format: codex
env_vars: {MAX_TOKENS: "100"}
"""
START = """\
#!/usr/bin/env bash
set -euo pipefail
# Never: my-cli "$(cat "$PROMPT_FILE")"
prompt="$PROMPT_FILE"
[ "$CONTINUATION" = 0 ] || prompt="$CONTINUE_FILE"
my-cli < "$prompt" | tee log
"""
DOCKERFILE = (
    "ARG BASE=harness-agent\nFROM debian AS build\nUSER root\nFROM ${BASE}\nUSER root\nRUN true\nUSER 1000:1000\n"
)
GOOD = {"config.yaml": CONFIG, "start.sh": START, "Dockerfile": DOCKERFILE}


def checked(folder: Path, files: dict[str, str]) -> dict[str, CheckResult]:
    for name, content in {**GOOD, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    report = check_agent(catalog.agent_at(folder), folder.parent, "no Docker", lambda result: None)
    return {result.name: result for result in report.checks}


def test_a_good_folder_passes(tmp_path: Path) -> None:
    results = checked(tmp_path / "mine", {})
    assert [result for result in results.values() if result.outcome is Outcome.FAILED] == []
    assert {name for name, result in results.items() if result.outcome is Outcome.SKIPPED} == {"docs", *DOCKER_CHECKS}
    assert results["image"].what == "no Docker"


@pytest.mark.parametrize(
    ("check", "files", "words"),
    [
        ("description", {"config.yaml": CONFIG.replace("A loop of its own around one LLM.", "x")}, "does not say"),
        ("scripts", {"config.yaml": CONFIG.replace("resume: start.sh", "resume: ../mine/start.sh")}, "is no file of"),
        ("scripts", {"config.yaml": CONFIG.replace("resume: start.sh", "resume: again.sh")}, "again.sh is no file"),
        ("scripts", {"start.sh": START.replace("bash", "sh", 1)}, "is not for bash"),
        ("scripts", {"start.sh": START + "if\n"}, "does not parse"),
        ("pipes", {"start.sh": START.replace("set -euo pipefail", "set -eu")}, "pipes into tee"),
        (
            "pipes",
            {"start.sh": START.replace("set -euo", "# set -euo").replace("| tee", "2>&1 \\\n | tee -a")},
            "into tee",
        ),
        ("prompt", {"start.sh": START + 'my-cli -p "$(cat "$PROMPT_FILE")"\n'}, "command line"),
        ("prompt", {"start.sh": START + 'PROMPT=$(< "${CONTINUE_FILE}")\n'}, "into a variable"),
        ("prompt", {"start.sh": START + "my-cli `cat $prompt`\n"}, "command line"),
        ("prompt", {"start.sh": START.replace("CONTINUE_FILE", "OTHER")}, "reads $CONTINUE_FILE"),
        ("resume", {"config.yaml": CONFIG.replace("resume:", "# resume:")}, "no `resume`"),
        ("code", {"tool.py": "import harness.catalog\n"}, "imports harness.catalog"),
        ("code", {"tool.py": "def x(:\n"}, "no valid Python"),
        ("code", {"start.sh": START + "echo $HARNESS_HOME\n"}, "a setting of the harness"),
        ("secrets", {"config.yaml": CONFIG.replace("MAX_TOKENS", "OPENAI_API_KEY")}, "env_vars sets OPENAI_API_KEY"),
        ("secrets", {"notes.txt": "key: sk-" + "abcdefgh12345678" * 2}, "looks like a key"),
        ("trajectory", {"config.yaml": CONFIG.replace("trajectory/*", "../trajectory/*")}, "leaves the workspace"),
        ("trajectory", {"config.yaml": CONFIG.replace("trajectory/*", "/var/*")}, "leaves the workspace"),
        ("trajectory", {"config.yaml": CONFIG.replace("format: codex", "format: codec")}, "'codec'"),
        ("dockerfile", {"Dockerfile": DOCKERFILE.replace("FROM ${BASE}", "FROM debian")}, "does not stand on"),
        ("dockerfile", {"Dockerfile": DOCKERFILE.replace("ARG BASE", "ARG OTHER")}, "as an argument"),
        ("dockerfile", {"Dockerfile": DOCKERFILE.replace("RUN true", "VOLUME /data")}, "VOLUME"),
        ("dockerfile", {"Dockerfile": DOCKERFILE.replace("USER 1000:1000", "")}, "ends as user root"),
        ("dockerfile", {"Dockerfile": DOCKERFILE.replace("1000:1000", "0:1000")}, "ends as user 0:1000"),
    ],
)
def test_each_fault_of_a_folder_is_told(tmp_path: Path, check: str, files: dict[str, str], words: str) -> None:
    results = checked(tmp_path / "mine", files)
    assert words in results[check].what
    assert results[check].fix
    assert [name for name, result in results.items() if result.outcome is Outcome.FAILED] == [check]


@pytest.mark.parametrize(
    ("stages", "is_ours"),
    [
        (["${BASE}"], True),
        (["debian AS build", "$BASE"], True),
        (["${BASE} AS python", "python as build", "python"], True),
        (["${BASE} AS python", "debian"], False),
        (["debian AS python", "python"], False),
        (["${BUILD_BASE}"], False),
        ([], False),
    ],
)
def test_the_last_stage_leads_to_the_agent_image(stages: list[str], is_ours: bool) -> None:
    assert stands_on_base(stages) == is_ours


def test_a_script_that_cannot_be_executed_is_told(tmp_path: Path) -> None:
    checked(tmp_path / "mine", {})
    (tmp_path / "mine" / "start.sh").chmod(0o644)
    with pytest.raises(UsageError, match="cannot be executed"):
        FOLDER_CHECKS["scripts"](catalog.agent_at(tmp_path / "mine"))


def test_whether_an_agent_of_the_checkout_that_drives_an_llm_has_a_page_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "mine"
    checked(folder, {})
    agent = catalog.agent_at(folder)

    def results() -> dict[str, CheckResult]:
        report = check_agent(agent, tmp_path, "no Docker", lambda result: None)
        return {result.name: result for result in report.checks}

    assert "docs/agents/mine.md" in results()["docs"].what
    assert results()["docs"].outcome is Outcome.SKIPPED
    (tmp_path / "docs" / "agents").mkdir(parents=True)
    (tmp_path / "docs" / "agents" / "mine.md").write_text("# Mine\n")
    assert results()["docs"].outcome is Outcome.PASSED


@pytest.mark.parametrize("protocol", ["none", "openai", "anthropic", "gemini"])
def test_a_new_folder_passes_as_it_is(tmp_path: Path, protocol: str) -> None:
    folder = tmp_path / "my-agent"
    files = write_agent(ROOT, folder, protocol)
    agent = catalog.agent_at(folder)
    report = check_agent(agent, ROOT, "no Docker", lambda result: None)
    assert report.failed == ()
    assert agent.config.name == "my-agent"
    assert agent.config.llm == (() if protocol == "none" else (protocol,))
    assert not [path for path in files if "LLM_PROTOCOL" in path.read_text()]


def test_without_a_checkout_there_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="HARNESS_ROOT"):
        write_agent(tmp_path, tmp_path / "x", "none")


def test_every_check_is_described() -> None:
    rows = re.findall(r"^\| ((?:`\w+` ?)+)\|", (ROOT / "docs" / "agents.md").read_text(encoding="utf-8"), re.M)
    described = {name for row in rows for name in re.findall(r"\w+", row)}
    assert described >= {"config", "docs", *FOLDER_CHECKS, *DOCKER_CHECKS}


def test_every_reader_of_native_logs_is_named_where_a_format_is_chosen() -> None:
    for path in ("docs/agents.md", "agents/_template/llm/config.yaml"):
        line = next(line for line in (ROOT / path).read_text().splitlines() if "trajectory_format:" in line)
        assert set(READERS) <= set(re.findall(r"[a-z-]+", line)), path
