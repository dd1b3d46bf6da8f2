"""`harness siblings`: checkpoints that submissions are compared with, to see where they come from."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import render
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.checkpoint.known_models import KnownModel
    from harness.home import Home


class Action(StrEnum):
    """What to do."""

    LIST = "list"
    ADD = "add"
    REMOVE = "remove"


def siblings(
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.LIST,
    sibling: Annotated[
        str | None, typer.Argument(help="add: a model folder, org/repo[@rev], or a shared file. remove: a name.")
    ] = None,
    of: Annotated[str | None, typer.Option(help="The base model: its name, or the beginning of its tree hash.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call an added one; default: as its source.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List, add or remove what submissions must not come from.

    Siblings are other checkpoints of a base model's family: an instruct version, a later release. What is handed in
    is compared with those that are known, and findings tell where it seems to come from one.
    """
    from harness.runner.siblings import add_sibling, list_siblings, remove_sibling
    from harness.settings import load_settings

    home = load_settings().resolved_home()
    home.create()
    if action is Action.LIST:
        _show([_row(home, base, one) for base, one in list_siblings(home)], as_json=as_json)
        return
    if sibling is None:
        raise UsageError(f"harness siblings {action} needs a sibling", "See `harness siblings --help`.")
    if action is Action.REMOVE:
        render.say(f"removed {remove_sibling(home, sibling, of)}")
        return
    if of is None:
        raise UsageError("of which base model?", "Name it with --of; it must be prepared (`harness prepare`).")
    _show([_row(home, *add_sibling(home, sibling, of, name, render.say))], as_json=as_json)


def _row(home: Home, base: KnownModel, one: KnownModel) -> dict[str, Any]:
    from harness.checkpoint.known_models import KnownModels

    path = KnownModels(home.lineage).sibling_path(one.base, one.name)
    return {
        "sibling": one.name,
        "source": one.source,
        "of": base.source,
        "tensors": len(one.fingerprint.tensors),
        "size_kb": round(path.stat().st_size / 1000),
        "file": str(path),
    }


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        render.print_json(rows)
    elif rows:
        render.print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        render.say("no siblings are known: findings say that submissions were not examined against any")


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "siblings",
        epilog="Examples: harness siblings list; harness siblings add ./SmolLM2-Instruct --of SmolLM2; "
        "harness siblings remove SmolLM2-Instruct",
    )(siblings)
