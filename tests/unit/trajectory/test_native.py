"""The native log of each scaffold, real ones: who said what, which result belongs to which call, whose sums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trajectory_files import SAMPLES

from harness.errors import UsageError
from harness.trajectory.atif import Step, Trajectory
from harness.trajectory.native import READERS, read_native

# What the scripted LLM was told to say, and to claim.
SAID = ["I look at the workspace first.", "Two things at once.", "I write a file with colours.", "All done."]
CLIS = ["claude", "codex", "gemini", "opencode"]


def sample(name: str) -> Trajectory:
    found = read_native([SAMPLES / f"{name}.jsonl"], name, name)
    assert found is not None
    return found


def of_agent(trajectory: Trajectory) -> list[Step]:
    return [step for step in trajectory.steps if step.source == "agent"]


def outputs(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Each call's arguments as text, with what came of it."""
    found = []
    for step in trajectory.steps:
        results = {result.source_call_id: result for result in step.observation.results} if step.observation else {}
        for call in step.tool_calls or ():
            found.append((json.dumps(call.arguments), (results[call.tool_call_id].content or "").strip()))
    return found


@pytest.mark.parametrize("name", CLIS)
def test_what_the_model_said_is_there_in_its_order(name: str) -> None:
    assert [step.message for step in of_agent(sample(name)) if step.message] == SAID


@pytest.mark.parametrize("name", CLIS)
def test_each_result_is_at_its_call(name: str) -> None:
    found = outputs(sample(name))
    assert [result.splitlines()[0] for _, result in found[:2]] == ["hello", "one"]
    assert found[2][1].endswith("two")
    assert "exit 3" in found[2][0]
    assert found[3][1].splitlines()[-1] == "200"


@pytest.mark.parametrize("name", CLIS)
def test_the_sums_are_what_the_log_claims(name: str) -> None:
    final = sample(name).final_metrics
    assert final is not None
    tokens = (final.total_prompt_tokens, final.total_cached_tokens, final.total_completion_tokens)
    assert tokens == (5700, 3700, 127)
    assert final.total_cost_usd == {"claude": 0.009015, "opencode": 0.0059255}.get(name)


@pytest.mark.parametrize("name", ["claude", "gemini", "opencode"])
def test_times_are_in_order_and_in_utc(name: str) -> None:
    times = [step.timestamp for step in of_agent(sample(name))]
    assert all(time is not None and time.endswith("+00:00") for time in times)
    assert times == sorted(times, key=str)


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_thoughts_are_apart_from_words(name: str) -> None:
    assert of_agent(sample(name))[0].reasoning_content == "The workspace may hold code already."


def test_what_failed_is_told() -> None:
    def extras(name: str) -> dict[str, object]:
        results = [r for step in sample(name).steps if step.observation for r in step.observation.results]
        return results[2].extra or {}

    assert extras("claude")["is_error"] is True
    assert extras("codex") == {"exit_code": 3, "status": "failed"}
    assert extras("opencode")["exit_code"] == 3


def test_the_agent_is_told_as_far_as_its_log_does() -> None:
    agent = sample("claude").agent
    assert (agent.version, agent.model_name) == ("2.1.332", "claude-sonnet-4-6")
    assert sample("gemini").agent.model_name == "gemini-2.5-pro"
    assert sample("codex").agent.model_name is None
    assert all(sample(name).session_id for name in CLIS)


def test_codex_warnings_are_steps_of_the_system() -> None:
    step = sample("codex").steps[0]
    assert step.source == "system"
    assert step.message.startswith("Model metadata")


def test_openhands() -> None:
    found = sample("openhands")
    assert [step.source for step in found.steps] == ["system", "user", "agent", "agent", "agent"]
    assert [step.message for step in of_agent(found)] == ["Look.", "Write.", ""]
    assert [result for _, result in outputs(found)] == ["/workspace\ncode\noutput", "1", "All done."]


def test_openhands_tells_its_sums_in_updates_of_its_state(native) -> None:
    def event(cost: float) -> str:
        tokens = {"prompt_tokens": 10, "completion_tokens": 3, "cache_read_tokens": 4}
        metrics = {"model_name": "m", "accumulated_cost": cost, "accumulated_token_usage": tokens}
        value = {"usage_to_metrics": {"agent": metrics, "condenser": metrics}}
        return json.dumps({"kind": "ConversationStateUpdateEvent", "key": "stats", "value": value}) + "\n"

    message = json.dumps({"kind": "MessageEvent", "source": "user", "llm_message": {"content": "hi"}})
    final = native("openhands", event(0.1) + event(0.2) + message).final_metrics
    assert (final.total_prompt_tokens, final.total_completion_tokens, final.total_cached_tokens) == (20, 6, 8)
    assert final.total_cost_usd == 0.4


def test_mini_swe_agent() -> None:
    found = read_native([SAMPLES / "mini-swe-agent.json"], "mini-swe-agent", "a")
    assert found is not None
    assert [step.message for step in of_agent(found)] == SAID
    assert [len(step.tool_calls or ()) for step in of_agent(found)] == [1, 2, 1, 1]
    assert [json.loads(result)["output"].split("\n")[0] for _, result in outputs(found)[:3]] == ["hello", "one", "two"]
    assert found.steps[-1].extra == {"event": "exit", "value": {"exit_status": "Submitted"}}
    final = found.final_metrics
    assert final is not None
    assert (final.total_prompt_tokens, final.total_cached_tokens, final.total_completion_tokens) == (5700, 3700, 127)
    assert (found.agent.version, found.agent.model_name) == ("2.4.6", "openai/gpt-5.2")


def test_rdagent() -> None:
    found = sample("rdagent")
    assert [step.source for step in found.steps[:3]] == ["system", "user", "agent"]
    training = next(step for step in found.steps if (step.extra or {}).get("event") == "training")
    assert training.extra is not None
    assert training.extra["value"]["exit_code"] == 0
    assert found.final_metrics is not None
    assert found.final_metrics.total_prompt_tokens == sum(
        step.metrics.prompt_tokens or 0 for step in found.steps if step.metrics
    )


def test_logs_of_continuations_are_behind_the_first(tmp_path: Path) -> None:
    """Numbers in names count as numbers, item ids of Codex begin anew, sums of a thread are of all of it."""
    log = (SAMPLES / "codex.jsonl").read_text()
    more = log.replace("All done.", "Done again.").replace('"input_tokens":5700', '"input_tokens":9000')
    for number, text in ((10, more), (2, log)):
        (tmp_path / f"codex-{number}.jsonl").write_text(text)
    found = read_native(tmp_path.iterdir(), "codex", "codex")
    assert found is not None
    said = [step.message for step in of_agent(found) if step.message]
    assert said == [*SAID, *SAID[:3], "Done again."]
    assert len(outputs(found)) == 8
    assert found.final_metrics is not None
    assert found.final_metrics.total_prompt_tokens == 9000


def test_each_process_of_claude_has_sums_of_its_own(tmp_path: Path) -> None:
    log = (SAMPLES / "claude.jsonl").read_text()
    (tmp_path / "log.jsonl").write_text(log + log.replace("msg_", "msg_2").replace("toolu_", "toolu_2"))
    final = read_native(tmp_path.iterdir(), "claude", "claude").final_metrics
    assert (final.total_prompt_tokens, final.total_cost_usd) == (11400, 0.01803)


def test_a_later_answer_of_the_same_claude_process_goes_on_its_sums(native) -> None:
    log = (SAMPLES / "claude.jsonl").read_text()
    result = json.loads(log.splitlines()[-1])
    later = {**result, "result_index": 1, "total_cost_usd": 0.02}
    assert native("claude", log + json.dumps(later)).final_metrics.total_cost_usd == 0.02


def test_a_run_that_was_killed_in_a_call_shows_the_call(native) -> None:
    lines = (SAMPLES / "codex.jsonl").read_text().splitlines()
    cut = next(n for n, line in enumerate(lines) if "item.started" in line) + 1
    last = native("codex", "\n".join(lines[:cut])).steps[-1]
    assert last.tool_calls[0].arguments == {"command": "/bin/bash -lc 'ls; echo hello'"}
    assert last.observation is None


def test_the_formats_are_those_of_the_agents_here() -> None:
    root = Path(__file__).resolve().parents[3] / "agents"
    named = [
        line.split(":", 1)[1].strip()
        for file in root.glob("*/config.yaml")
        for line in file.read_text().splitlines()
        if line.startswith("trajectory_format:")
    ]
    assert set(named) <= READERS.keys()


def test_an_unknown_format_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no reader") as caught:
        read_native([tmp_path / "x"], "other", "a")
    assert "claude, codex" in caught.value.fix
