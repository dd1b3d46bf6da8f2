"""`harness run`, `resume`, `stop`: starting a run and seeing it to its verdict."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render
from harness.cli.llm_options import (
    AllowHost,
    BudgetRequests,
    BudgetTokens,
    BudgetUsd,
    Continue,
    Llm,
    LlmKeyFile,
    LlmModel,
    LlmProvider,
    LlmTools,
    Network,
    request_with,
    shown_reach,
)
from harness.cli.selection import LATEST, RunArgument

if TYPE_CHECKING:
    from harness.domain.admin import RunStatus
    from harness.home import Home
    from harness.runner.launch import Launcher
    from harness.runner.plan import RunDraft

EXIT_NOT_GRADED = 1
Json = Annotated[bool, typer.Option("--json", help="The result for machines, on stdout.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show the agent's output while it runs.")]


def run(
    agent: Annotated[str, typer.Option(help="Folder under agents/.")],
    task: Annotated[str, typer.Option(help="Folder under benchmarks/, or smith-<name> of SMITH_BENCH_DIR.")],
    model: Annotated[
        str | None, typer.Option(help="Folder, name of `harness list models`, or org/repo[@rev]; default: the task's.")
    ] = None,
    timeout: Annotated[int | None, typer.Option(min=1, help="Seconds of agent time; default: the task's.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the benchmark's files, instead of the hub.")
    ] = None,
    eval_mode: Annotated[
        str | None, typer.Option(help="per_sample, code or opencompass; default: the benchmark's own.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="standard or paper.")] = "standard",
    limit: Annotated[int | None, typer.Option(min=1, help="Score on so many hidden items only.")] = None,
    max_submissions: Annotated[int | None, typer.Option(min=1, help="In all; default: the task's.")] = None,
    memory_mb: Annotated[int | None, typer.Option(min=64, help="Of the agent; default: the task's.")] = None,
    disk_mb: Annotated[int | None, typer.Option(min=16, help="All the agent may write; default: the task's.")] = None,
    cpus: Annotated[
        float | None, typer.Option(min=0.1, help="Cores of the agent; default: the task's, or all.")
    ] = None,
    gpus: Annotated[str, typer.Option(help="GPU UUIDs, comma-separated (HARNESS_DEVICE=gpu).")] = "",
    seed: Annotated[int, typer.Option(help="What the agent finds in SEED.")] = 0,
    port: Annotated[
        int, typer.Option(help="For compatibility: the grader answers its agents on 5000 all the same.")
    ] = 5000,
    llm: Llm = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    llm_key_file: LlmKeyFile = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    budget_requests: BudgetRequests = None,
    llm_tools: LlmTools = "",
    network: Network = "none",
    allow_host: AllowHost = [],  # noqa: B006 (typer reads the default, nobody changes it)
    continue_: Continue = None,
    follow: Follow = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan; start nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Run one agent on one benchmark, to its verdict."""
    from harness.cli.choices import eval_mode_of, protocol_of
    from harness.domain.llm import LlmBudget
    from harness.runner.request import RunRequest

    request = RunRequest(
        agent=agent,
        task=task,
        model=model,
        timeout_s=timeout,
        data_dir=data_dir.resolve() if data_dir else None,
        eval_mode=eval_mode_of(eval_mode),
        protocol=protocol_of(protocol),
        limit=limit,
        max_submissions=max_submissions,
        memory_mb=memory_mb,
        disk_mb=disk_mb,
        cpus=cpus,
        gpus=tuple(gpu for gpu in gpus.split(",") if gpu),
        seed=seed,
        port=port,
    )
    request = request_with(
        request,
        llm_url=llm,
        llm_model=llm_model,
        llm_provider=llm_provider,
        llm_key_file=llm_key_file,
        llm_budget=LlmBudget(usd=budget_usd, tokens=budget_tokens, requests=budget_requests),
        llm_tools=tuple(tool for tool in llm_tools.split(",") if tool),
        network=network,
        allowed_hosts=allow_host,
        continue_min_left_s=continue_ and continue_ * 60,
    )
    with launching() as (launcher, home):
        draft = launcher.draft(request)
        if dry_run:
            _print_draft(draft, as_json)
            if lacking := launcher.what_lacks(draft):
                render.say(f"it could not start as it is: {lacking}")
            return
        with following(home, draft.run_id, follow):
            status = launcher.start(draft)
    _conclude(home, status, as_json)


def resume(run: RunArgument = LATEST, follow: Follow = False, as_json: Json = False) -> None:
    """Take up a run whose harness died, or which was stopped."""
    from harness.cli.database import run_id_of

    with launching() as (launcher, home):
        run_id = run_id_of(home, run)
        with following(home, run_id, follow):
            status = launcher.resume(run_id)
    _conclude(home, status, as_json)


def stop(run: RunArgument = LATEST) -> None:
    """Stop a run cleanly, from another terminal; it can be resumed."""
    from harness.cli.database import run_id_of
    from harness.domain.runs import RunKind

    with launching() as (launcher, home):
        run_id = run_id_of(home, run)
        kind = launcher.stop(run_id)
    again = "a grading is started anew" if kind is RunKind.GRADE else f"`harness resume {run_id}` takes it up again"
    render.say(f"{run_id} is stopped, or about to be; {again}")


@contextmanager
def launching() -> Iterator[tuple[Launcher, Home]]:
    """The launcher of this machine, its progress shown on stderr."""
    from harness.cli.run_progress import show_build, showing_run
    from harness.runner.host import Host
    from harness.runner.launch import Launcher
    from harness.settings import load_settings

    with showing_run() as sink, Host.open(load_settings(), show_build) as host:
        yield Launcher(host, sink), host.home


@contextmanager
def following(home: Home, run_id: str, is_wanted: bool) -> Iterator[None]:
    """Shows the agent's output on stderr while the block runs."""
    if not is_wanted:
        yield
        return
    from harness.cli.logs import pieces, shown

    is_over = threading.Event()

    def copy() -> None:
        for piece in pieces(home.run(run_id).agent_log, is_over.is_set):
            render.say(shown(piece).rstrip())

    thread = threading.Thread(target=copy, name="follow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(timeout=5)


def _print_draft(draft: RunDraft, as_json: bool) -> None:
    if as_json:
        render.print_json(draft)
        return
    limits = draft.limits.model_dump()
    render.print_facts(
        {
            "agent": f"{draft.agent.id} ({draft.agent.digest[:12]})",
            "benchmark": f"{draft.benchmark.id} ({draft.benchmark.digest[:12]})",
            "model": draft.model,
            "eval mode": draft.benchmark.config.eval_mode.value,
            "protocol": draft.request.protocol.value,
            "hidden items": draft.request.limit or "all",
            "device": draft.hardware.device,
            **{name.replace("_", " "): value for name, value in limits.items()},
            **shown_reach(draft),
            **{f"image {zone}": tag for zone, tag in draft.images.items()},
        }
    )
    render.say("nothing was started")


def _conclude(home: Home, status: RunStatus, as_json: bool) -> None:
    from harness.cli.show import facts_of, show_facts
    from harness.domain.runs import Verdict

    facts = facts_of(home, status.run_id)
    if as_json:
        render.print_json(facts)
    else:
        show_facts(facts)
    if status.verdict is not Verdict.GRADED:
        raise typer.Exit(EXIT_NOT_GRADED)


def register(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command(
        "run",
        epilog="Examples: harness run --agent example --task arithmetic; "
        "harness run --agent example --task gsm8k --model ./SmolLM2 --data-dir ./gsm8k --limit 50 --timeout 600; "
        "harness run --agent openhands --task gsm8k --llm http://localhost:8000/v1 --budget-tokens 2000000",
    )(run)
    app.command("resume", epilog="Examples: harness resume latest; harness resume 20260101T --follow")(resume)
    app.command("stop", epilog="Example: harness stop latest")(stop)
