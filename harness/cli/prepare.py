"""`harness prepare`: base model and data into the store, ahead of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import render

# Nothing of the agent matters here; this one is always there.
ANY_AGENT = "noop"


def prepare(
    task: Annotated[str, typer.Option(help="Folder under benchmarks/, or smith-<name> of SMITH_BENCH_DIR.")],
    model: Annotated[
        str | None, typer.Option(help="Folder, name of `harness list models`, or org/repo[@rev]; default: the task's.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the benchmark's files, instead of the hub.")
    ] = None,
    eval_mode: Annotated[str | None, typer.Option(help="Instead of the benchmark's own eval_mode.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Fetch, verify and store the base model and data of a benchmark."""
    from harness.cli.choices import eval_mode_of
    from harness.cli.run import launching
    from harness.runner.request import RunRequest

    request = RunRequest(
        agent=ANY_AGENT,
        task=task,
        model=model,
        data_dir=data_dir.resolve() if data_dir else None,
        eval_mode=eval_mode_of(eval_mode),
    )
    with launching() as (launcher, home):
        base, data = launcher.prepare(launcher.draft(request))
    if as_json:
        render.print_json({"model": base, "data": data})
        return
    render.print_facts(
        {
            "model": f"{base.repo_id} ({base.revision}), {base.size_bytes / 1e6:.1f} MB",
            "in": str(home.path / base.path),
            "train items": data.train_items,
            "hidden items": data.eval_items,
        }
    )


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "prepare",
        epilog="Examples: harness prepare --task arithmetic; "
        "harness prepare --task gsm8k --model ./SmolLM2 --data-dir ./gsm8k",
    )(prepare)
