"""Which run is meant: an id, a unique beginning of one, or `latest`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated

import typer

from harness.errors import UsageError

LATEST = "latest"
SHOWN_MATCHES = 3
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run id, a unique beginning of one, or `latest`.", show_default=True)
]


def choose(name: str, run_ids: Iterable[str]) -> str:
    """The one run that `name` means; ids begin with their UTC time, so the greatest is the latest.

    Raises:
        UsageError: no run, or more than one.
    """
    known = sorted(set(run_ids))
    if not known:
        raise UsageError(
            "there are no runs yet",
            "Start one with `harness run`, or `make demo`. What `harness grade` scored: `harness list gradings`.",
        )
    if name == LATEST:
        return known[-1]
    if name in known:
        return name
    matches = [run_id for run_id in known if run_id.startswith(name)] if name else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        shown = ("..., " if len(matches) > SHOWN_MATCHES else "") + ", ".join(matches[-SHOWN_MATCHES:])
        raise UsageError(f"{name} begins {len(matches)} run ids: {shown}", "Give more of the id.")
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(f"no run {name}", f"{hint}`harness list` shows all of them.")
