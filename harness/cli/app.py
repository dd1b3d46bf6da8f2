"""Every command of `harness`, put together; the command modules import what is heavy only when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import __version__
from harness.cli import (
    catalog,
    check,
    clean,
    config,
    doctor,
    grade,
    grader,
    images,
    logs,
    new,
    plot,
    prepare,
    run,
    show,
    siblings,
    sql,
    transfer,
)

app = typer.Typer(
    name="harness",
    help="Can an LLM agent post-train a model by itself? Runs agents in a sandbox, scores what they hand in.",
    epilog=(
        "Exit codes: 0 ok, 1 the run did not end in 'graded', 2 usage, 3 a prerequisite is missing, "
        "4 infrastructure, 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"harness {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug messages on stderr.")] = False,
) -> None:
    """Options that every command shares."""
    from harness.cli.messages import set_up

    set_up(is_debug=debug)


for module in (
    run,
    grade,
    images,
    prepare,
    grader,
    doctor,
    catalog,
    check,
    new,
    show,
    plot,
    logs,
    sql,
    transfer,
    siblings,
    config,
    clean,
):
    module.register(app)
