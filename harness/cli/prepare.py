"""`harness prepare`: base model and data into the store, ahead of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render

if TYPE_CHECKING:
    from harness.home import Home
    from harness.runner.preparation import Preparation

# Nothing of the agent matters here; this one is always there.
ANY_AGENT = "noop"
DIVIDED = ", taken out of the train data by a hash of each question"


def prepare(
    task: Annotated[str, typer.Option(help="Folder under benchmarks/, or smith-<name> of SMITH_BENCH_DIR.")],
    model: Annotated[
        str | None, typer.Option(help="Folder, name of `harness list models`, or org/repo[@rev]; default: the task's.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the benchmark's files, instead of the hub.")
    ] = None,
    eval_mode: Annotated[
        str | None, typer.Option(help="per_sample, code or opencompass; default: the benchmark's own.")
    ] = None,
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
        done = launcher.prepare_ahead(launcher.draft(request))
    if as_json:
        render.print_json(done)
    else:
        _show(done, home)


def _show(done: Preparation, home: Home) -> None:
    model, data = done.model, done.data
    render.print_facts(
        {
            "model": f"{model.repo_id} ({model.revision}), {_size(model.size_bytes)}, {_state(done.is_model_new)}",
            "in": str(home.path / model.path),
            "tree hash": model.tree_hash,
            "train items": f"{data.train_items:,} ({_size(done.train_bytes)}), {_state(done.is_data_new)}",
            "hidden items": f"{data.eval_items:,} ({_size(done.eval_bytes)}){DIVIDED if data.is_divided else ''}",
            "took": f"{done.seconds:.1f} s",
        }
    )


def _state(is_new: bool) -> str:
    return "stored now and verified" if is_new else "was there already, read again and verified"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "prepare",
        epilog="Examples: harness prepare --task arithmetic; "
        "harness prepare --task gsm8k --model ./SmolLM2 --data-dir ./gsm8k",
    )(prepare)
