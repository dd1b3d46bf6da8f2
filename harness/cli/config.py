"""`harness config`: every setting, its value, and where that came from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from harness.cli import render


def config(
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show every setting, its value, and where it came from."""
    from harness.settings import explain, load_settings

    views = explain(load_settings())
    if as_json:
        render.print_json([asdict(view) for view in views])
        return
    render.print_table(
        ("setting", "value", "from", "what"), [(v.name, v.value, v.source, v.description) for v in views]
    )


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("config", epilog="Example: HARNESS_HOME=/data/harness harness config")(config)
