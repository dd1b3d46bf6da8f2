"""`harness plot`: a run's scores over its time, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.selection import LATEST, RunArgument


def plot(
    run: RunArgument = LATEST,
    out: Annotated[Path, typer.Option("--out", help="File to write: .svg, .png or .pdf.")] = Path("run.svg"),
) -> None:
    """Draw a run: baseline and submissions over time."""
    from harness.cli.database import reading, run_id_of
    from harness.report.plot import draw, picture_of
    from harness.settings import load_settings

    home = load_settings().resolved_home()
    with reading(home) as db:
        draw(picture_of(db, run_id_of(home, run)), out)
    print(out)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("plot", epilog="Example: harness plot latest --out run.svg")(plot)
