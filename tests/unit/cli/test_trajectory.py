"""`harness logs --trajectory`: readable, safe for a terminal, exact as JSON, and clear where there is nothing."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from samples import closed, plan, registered
from trajectory_files import SAMPLES, captured

from harness.cli import render
from harness.cli.edge import guarded
from harness.domain.llm import LlmCall
from harness.domain.specs import Agent, AgentConfig
from harness.home import Home
from harness.store.database import open_writer
from harness.store.records_llm import add_llm_calls
from harness.trajectory.atif import Trajectory


def agent(trajectory: str | None = "trajectory/*.jsonl", name: str | None = "claude") -> Agent:
    config = AgentConfig(name="Claude Code", trajectory=trajectory, trajectory_format=name)
    return Agent(id="claude", path=Path("agents/claude"), digest="a" * 64, config=config)


def run_of(home: Home, who: Agent) -> str:
    """A closed run of this agent, of which the gateway metered one call; its folder is empty."""
    run_plan = plan(1, agent="claude").model_copy(update={"agent": who})
    db = open_writer(home.db)
    try:
        registered(db, run_plan)
        at = datetime(2026, 1, 2, tzinfo=UTC)
        call = LlmCall(
            number=1, run_id=run_plan.run_id, at=at, provider="anthropic", model="m", http_status=200,
            input_tokens=6000, cached_tokens=3700, output_tokens=130, cost_usd=0.01,
        )  # fmt: skip
        add_llm_calls(db, run_plan.run_id, [call])
        closed(db, run_plan.run_id)
    finally:
        db.close()
    home.run(run_plan.run_id).path.mkdir()
    return run_plan.run_id


@pytest.fixture
def run(own_settings: Home) -> str:
    """A run with Claude Code's log in its folder."""
    run_id = run_of(own_settings, agent())
    logs = own_settings.run(run_id).native_logs / "trajectory"
    logs.mkdir(parents=True)
    shutil.copy(SAMPLES / "claude.jsonl", logs / "claude.jsonl")
    return run_id


def test_turns_calls_and_outputs_are_shown(run: str, capsys) -> None:
    assert guarded(["logs", "--trajectory"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("Claude Code  2.1.332  claude-sonnet-4-6")
    assert "   2  2026-11-30 23:43:43  agent  1,300 in, 1,100 cached" in lines
    assert "    > Bash echo two; exit 3" in lines
    assert "      is_error True" in lines
    assert "\x1b" not in out


def test_long_outputs_are_shortened(run: str, own_settings: Home, capsys) -> None:
    log = own_settings.run(run).native_logs / "trajectory" / "claude.jsonl"
    log.write_text(log.read_text().replace("198\\n199", "x" * 5000 + "\\nlast"))
    assert guarded(["logs", "--trajectory"]) == 0
    out = capsys.readouterr().out
    assert "characters ...]" in out
    assert "last" in out
    assert max(map(len, out.splitlines())) < 1000


def test_what_is_claimed_and_what_is_metered_are_told_apart(run: str, capsys) -> None:
    assert guarded(["logs", "--trajectory", "--tail", "1"]) == 0
    out = capsys.readouterr().out
    assert "the agent's log says: 5,700 in, 3,700 cached, 127 out, 0.0090 USD" in out
    assert "the gateway metered: 6,000 in, 3,700 cached, 130 out, 0.0100 USD, in 1 calls" in out
    assert "... 4 steps before" in out
    assert "Two things" not in out


def test_json_is_the_whole_as_atif(run: str, capsys) -> None:
    assert guarded(["logs", "--trajectory", "--json", "--tail", "1"]) == 0
    found = Trajectory.model_validate_json(capsys.readouterr().out)
    assert len(found.steps) == 5
    assert found.final_metrics is not None
    assert found.final_metrics.total_prompt_tokens == 5700
    extra = found.final_metrics.extra or {}
    assert extra["source"] == "agent's log"
    assert extra["metered_by_gateway"]["input_tokens"] == 6000


def test_from_the_gateway(run: str, own_settings: Home, capsys) -> None:
    folder = own_settings.run(run).llm_calls
    folder.parent.mkdir(parents=True)
    captured(folder, "claude")
    assert guarded(["logs", "--trajectory", "--from", "gateway"]) == 0
    out = capsys.readouterr().out
    assert "of the calls above, metered: 5,700 in" in out
    assert "1,200 in, 0 cached, 30 out" in out


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e",
        "done\n   9  2026-01-01 00:00:00  agent\n    score 100",
        "a\rb\x85c\u2028d\x0be",
        "\ud800\x00",
    ],
)
def test_nothing_in_a_log_drives_the_terminal_or_passes_for_a_step(text, run, own_settings: Home, capsys) -> None:
    log = own_settings.run(run).native_logs / "trajectory" / "claude.jsonl"
    block = {"type": "tool_use", "id": text, "name": text, "input": {text: text}}
    message = {"id": "m", "model": text, "content": [{"type": "text", "text": text}, block]}
    result = {"type": "tool_result", "tool_use_id": text, "content": text, "is_error": text}
    events = [
        {"type": "system", "subtype": "init", "claude_code_version": text, "model": text, "session_id": text},
        {"type": text, "subtype": text, "x": text},
        {"type": "assistant", "message": message},
        {"type": "user", "message": {"content": [result]}},
        {"type": "result", "subtype": text, "is_error": True, "result": text},
    ]
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert guarded(["logs", "--trajectory"]) == 0
    out = capsys.readouterr().out
    assert render.without_escapes(out) == out
    heads = [line for line in out.split("\n")[1:] if line and not line.startswith("    ")]
    steps = [line.split()[0] for line in heads if line.startswith("   ")]
    assert steps == ["1", "2", "3"]
    assert len([line for line in heads if not line.startswith("   ")]) == 2
    assert guarded(["logs", "--trajectory", "--json"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert json.loads(out)["steps"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--follow"], "neither followed nor raw"),
        (["--raw"], "neither followed nor raw"),
        (["--from", "gateway"], "captured no calls"),
    ],
)
def test_what_cannot_be_shown_is_told(options, words, run: str, capsys) -> None:
    assert guarded(["logs", "--trajectory", *options]) == 2
    assert words in capsys.readouterr().err


def test_json_is_of_a_trajectory_alone(run: str, capsys) -> None:
    assert guarded(["logs", "--json"]) == 2
    assert "--trajectory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("who", "log", "words"),
    [
        (agent(None, None), None, "writes no log of its own"),
        (agent(), None, "no log of the agent is kept"),
        (agent(), b"\x00\xff no log at all\n", "holds nothing that is a log of claude"),
        (agent(name=None), b"{}", "--from gateway"),
        (agent(name="other"), b"{}", "no reader for the trajectory format 'other'"),
    ],
)
def test_a_missing_or_broken_log_has_a_clear_message(who, log, words, own_settings: Home, capsys) -> None:
    run_id = run_of(own_settings, who)
    if log is not None:
        own_settings.run(run_id).native_logs.mkdir(parents=True)
        (own_settings.run(run_id).native_logs / "x.jsonl").write_bytes(log)
    assert guarded(["logs", "--trajectory"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "fix:" in err


def test_a_run_without_rows_says_so(own_settings: Home, capsys) -> None:
    own_settings.run("20260101T000000_noop_abcd").path.mkdir()
    assert guarded(["logs", "--trajectory"]) == 2
    assert "has no rows here" in capsys.readouterr().err
