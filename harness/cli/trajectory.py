"""`harness logs --trajectory`: what an agent said and did, turn by turn, from its own logs or from the gateway's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.cli import render
from harness.errors import NotFound, UsageError

if TYPE_CHECKING:
    from harness.domain.specs import AgentConfig
    from harness.home import Home, RunFolder
    from harness.trajectory.atif import Metrics, ObservationResult, Step, Trajectory

# Of a message, of a call's arguments, of an output: what is longer is shown with its middle left out.
MAX_MESSAGE, MAX_ARGUMENTS, MAX_OUTPUT, MAX_NAME = 2_000, 400, 800, 100
INDENT = " " * 4


class Origin(StrEnum):
    """Whose word a trajectory is."""

    NATIVE = "native"
    GATEWAY = "gateway"


def show_trajectory(home: Home, run_id: str, origin: Origin, tail: int | None, *, as_json: bool) -> None:
    """The trajectory of a run on stdout, the last `tail` steps of it for people, or whole as ATIF.

    Raises:
        UsageError: there is none.
    """
    trajectory = trajectory_of(home, run_id, origin)
    if as_json:
        render.print_json(trajectory.as_json())
        return
    for line in lines_of(trajectory, origin, tail):
        print(render.without_escapes(line))


def trajectory_of(home: Home, run_id: str, origin: Origin) -> Trajectory:
    """The run's trajectory, with what the gateway metered beside the sums of it.

    Raises:
        UsageError: there is none.
    """
    from harness.cli.logs import folder_of
    from harness.trajectory.exchanges import read_exchanges

    folder = folder_of(home, run_id)
    config, metered = _recorded(home, run_id)
    if origin is Origin.NATIVE:
        trajectory = _native(folder, config)
    else:
        captured = read_exchanges(folder.llm_calls, config.name if config else "")
        if captured is None:
            raise UsageError(
                f"the gateway captured no calls of {run_id}",
                "Only agents that drive an LLM have them. Their own logs: `harness logs --trajectory`.",
            )
        trajectory = captured
    final = trajectory.final_metrics
    extra = {"source": "agent's log" if origin is Origin.NATIVE else "gateway", "metered_by_gateway": metered}
    final = final and final.model_copy(update={"extra": {k: v for k, v in extra.items() if v}})
    return trajectory.model_copy(update={"final_metrics": final})


def _native(folder: RunFolder, config: AgentConfig | None) -> Trajectory:
    from harness.trajectory.native import read_native

    if config is None:
        raise UsageError(f"{folder.path.name} has no rows here", "Import its record: `harness import`.")
    if config.trajectory is None:
        raise UsageError(
            f"agent {config.name} writes no log of its own that is read",
            "`trajectory` and `trajectory_format` in its config.yaml name one. Its output: `harness logs`.",
        )
    files = [path for path in folder.native_logs.rglob("*") if path.is_file()]
    if not files:
        where = f"none fits {config.trajectory} in its workspace" if folder.collected.exists() else "it is at work yet"
        raise UsageError(
            f"no log of the agent is kept in {folder.native_logs}: {where}",
            "They are collected when a run ends. What was said to its LLM: `--from gateway`.",
        )
    if config.trajectory_format is None:
        raise UsageError(
            f"the log of agent {config.name} is kept as it is, in {folder.native_logs}: its config.yaml names no "
            "`trajectory_format`",
            "What was said to its LLM: `harness logs --trajectory --from gateway`.",
        )
    trajectory = read_native(files, config.trajectory_format, config.name)
    if trajectory is None:
        raise UsageError(
            f"the agent's log holds nothing that is a log of {config.trajectory_format}",
            f"Look into {folder.native_logs}. What was said to its LLM: `--from gateway`.",
        )
    return trajectory


def _recorded(home: Home, run_id: str) -> tuple[AgentConfig | None, dict[str, Any]]:
    """The agent's configuration, and what the gateway metered of the run; without rows there is neither."""
    from harness.cli.database import reading
    from harness.store.records_llm import llm_spend_of
    from harness.store.records_runs import get_run

    if not home.db.exists():
        return None, {}
    with reading(home) as db:
        try:
            config, spend = get_run(db, run_id).plan.agent.config, llm_spend_of(db, run_id)
        except NotFound:
            return None, {}
    return config, spend.model_dump() if spend.calls else {}


def lines_of(trajectory: Trajectory, origin: Origin, tail: int | None) -> Iterator[str]:
    """The trajectory for people; not yet safe to show."""
    steps = trajectory.steps[-tail:] if tail else trajectory.steps
    agent = trajectory.agent
    yield _one_line(agent.name, agent.version, agent.model_name, trajectory.session_id)
    if len(steps) < len(trajectory.steps):
        yield f"... {len(trajectory.steps) - len(steps)} steps before"
    for step in steps:
        yield ""
        yield from _step_lines(step)
    yield ""
    yield from _closing_lines(trajectory, origin)


def _step_lines(step: Step) -> Iterator[str]:
    event = (step.extra or {}).get("event")
    clock, tokens = _clock(step.timestamp), _tokens(step.metrics)
    yield f"{step.step_id:>4}  {_one_line(clock, step.source, event, tokens)}"
    if step.reasoning_content:
        yield from _block("(thinks) " + step.reasoning_content, MAX_MESSAGE)
    yield from _block(step.message, MAX_MESSAGE)
    if event:
        told = {name: value for name, value in (step.extra or {}).items() if name != "event"}
        if told:
            yield from _block(json.dumps(told, ensure_ascii=False), MAX_ARGUMENTS)
    results = list(step.observation.results) if step.observation else []
    for call in step.tool_calls or ():
        yield from _block(f"> {call.function_name} {_arguments(call.arguments)}", MAX_ARGUMENTS)
        for result in [result for result in results if result.source_call_id == call.tool_call_id]:
            yield from _result_lines(result)
    for result in [result for result in results if result.source_call_id is None]:
        yield from _result_lines(result)


def _result_lines(result: ObservationResult) -> Iterator[str]:
    facts = {name: value for name, value in (result.extra or {}).items() if name != "timestamp"}
    told = ", ".join(f"{name} {value}" for name, value in facts.items())
    yield from (f"  {line}" for line in [*_block(told, MAX_ARGUMENTS), *_block(result.content or "", MAX_OUTPUT)])


def _one_line(*words: object) -> str:
    """What of `words` is there, on one line whatever is in it."""
    return "  ".join(" ".join(str(word).split())[:MAX_NAME] for word in words if word)


def _arguments(arguments: dict[str, Any]) -> str:
    """A call's arguments; a single text as it is, for that is a command in most cases."""
    values = list(arguments.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else json.dumps(arguments, ensure_ascii=False)


def _block(text: str, limit: int) -> Iterator[str]:
    """The lines of a text, its middle left out where it is long, each moved in so that none can pass for a step."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n[... {len(text) - limit} characters ...]\n{text[-(limit // 2) :]}"
    yield from (f"{INDENT}{line}" for line in text.splitlines() if line.strip())


def _clock(timestamp: str | None) -> str:
    return datetime.fromisoformat(timestamp).strftime("%Y-%m-%d %H:%M:%S") if timestamp else ""


def _tokens(metrics: Metrics | None) -> str:
    if metrics is None:
        return ""
    return ", ".join(_counted(metrics.prompt_tokens, metrics.cached_tokens, metrics.completion_tokens))


def _counted(read: int | None, cached: int | None, written: int | None) -> list[str]:
    """Those of the numbers of tokens that are known."""
    told = ((read, "in"), (cached, "cached"), (written, "out"))
    return [f"{number:,} {name}" for number, name in told if number is not None]


def _closing_lines(trajectory: Trajectory, origin: Origin) -> Iterator[str]:
    from harness.cli.show import cost_words

    final = trajectory.final_metrics
    if final is not None:
        metered = (final.extra or {}).get("metered_by_gateway")
        is_guess = origin is Origin.GATEWAY and metered and not metered["is_price_listed"]
        cost = "" if final.total_cost_usd is None or is_guess else f"{final.total_cost_usd:.4f} USD"
        sums = _counted(final.total_prompt_tokens, final.total_cached_tokens, final.total_completion_tokens)
        whose = "the agent's log says" if origin is Origin.NATIVE else "of the calls above, metered"
        yield f"{whose}: {', '.join(filter(None, [*sums, cost])) or 'no tokens'}"
        if metered:
            yield (
                f"the gateway metered: {metered['input_tokens']:,} in, {metered['cached_tokens']:,} cached,"
                f" {metered['output_tokens']:,} out, {cost_words(metered)}, in {metered['calls']:,} calls"
            )
    if trajectory.notes:
        yield f"note: {trajectory.notes}"
