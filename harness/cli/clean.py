"""`harness clean`: removes what a dead harness left, of this home only, and run folders that are asked for."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.grader.snapshots import SnapshotStore
    from harness.home import Home
    from harness.sandbox.reaper import RunObjects

# A large checkpoint takes minutes to be copied; meanwhile nothing is removed.
LOCK_TIMEOUT_S = 30.0
KINDS = ("containers", "networks", "mounts", "loop_devices", "socket_dirs")


def clean(
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="This run's objects and folder; its rows stay.")
    ] = None,
    snapshots: Annotated[
        bool,
        typer.Option("--snapshots", help="Stored checkpoints of runs that have ended for good; records keep hashes."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go; remove nothing.")] = False,
) -> None:
    """Remove what no live run owns, of this home only."""
    from harness.settings import load_settings

    home = load_settings().resolved_home()
    if snapshots:
        if run is not None:
            raise UsageError("--snapshots is for all runs that have ended", "Leave out --run.")
        _clean_snapshots(home, yes=yes, dry_run=dry_run)
        return
    _clean_objects(home, run, yes=yes, dry_run=dry_run)


def _clean_objects(home: Home, run: str | None, *, yes: bool, dry_run: bool) -> None:
    from harness.sandbox.egress import remove_egress
    from harness.sandbox.engine import connect
    from harness.sandbox.reaper import orphans, remove_run_objects

    client = connect()

    def removable() -> list[RunObjects]:
        return orphans(client, home, live_runs(home)) if run is None else [objects_of(home, run)]

    found = removable()
    folders = [] if run is None else [path for path in (home.run(found[0].run_id).path,) if path.is_dir()]
    if not any(count_of(one) for one in found) and not folders:
        was_there = not dry_run and remove_egress(client, home)
        render.say("removed the gateways' network" if was_there else "nothing to clean")
        return
    render.print_table(("run", *KINDS), [(one.run_id, *(len(getattr(one, kind)) for kind in KINDS)) for one in found])
    for folder in folders:
        render.say(f"folder {folder}")
    if dry_run:
        render.say("nothing was removed (--dry-run)")
        return
    confirm(is_confirmed=yes)
    # Somebody may have thought it over for long: a run that was taken up meanwhile stays.
    asked = {one.run_id for one in found}
    found = [one for one in removable() if one.run_id in asked]
    for one in found:
        remove_run_objects(client, home, one.run_id)
    for folder in folders:
        shutil.rmtree(folder)
    remove_egress(client, home)
    render.say(f"removed {sum(count_of(one) for one in found)} objects and {len(folders)} folders")


def _clean_snapshots(home: Home, *, yes: bool, dry_run: bool) -> None:
    from harness.grader.snapshots import SnapshotStore, stored_bytes

    store = SnapshotStore(home.snapshots)
    found = unneeded_snapshots(home, store)
    if not found:
        render.say("no snapshot that an open run does not need")
        return
    sizes = {key: stored_bytes(store.path_of(key)) / 1e6 for key in found}
    render.print_table(("snapshot", "MB"), [(key[:12], f"{size:.1f}") for key, size in sizes.items()])
    render.say(
        f"{len(found)} of {len(store.all_keys())} snapshots, {sum(sizes.values()):.1f} MB; records keep their hashes"
    )
    if dry_run:
        render.say("nothing was removed (--dry-run)")
        return
    confirm(is_confirmed=yes)
    with store.collecting(LOCK_TIMEOUT_S):
        # A run may have handed the same in meanwhile.
        removed = store.remove(set(found) & set(unneeded_snapshots(home, store)))
    render.say(f"removed {removed} snapshots")


def unneeded_snapshots(home: Home, store: SnapshotStore) -> list[str]:
    """Snapshots that were handed in by no run that goes on, or can be taken up again."""
    from harness.cli.database import reading
    from harness.domain.runs import EndedBy, Verdict
    from harness.store.records_queue import tree_hashes_of
    from harness.store.records_runs import list_runs

    if not home.snapshots.is_dir():
        return []
    needed: set[str] = set()
    if home.db.exists():
        with reading(home) as db:
            for run in list_runs(db):
                is_stopped = run.verdict is Verdict.INTERRUPTED or run.ended_by is EndedBy.STOPPED
                # Without its folder a run cannot be resumed.
                if not run.is_closed or (is_stopped and home.run(run.run_id).path.is_dir()):
                    needed.update(tree_hashes_of(db, run.run_id))
    return [key for key in store.all_keys() if key.partition("-")[0] not in needed]


def count_of(objects: RunObjects) -> int:
    """How many things of a run there are."""
    return sum(len(getattr(objects, kind)) for kind in KINDS)


def live_runs(home: Home) -> set[str]:
    """Runs that somebody drives, or that have no verdict and can be taken up: nothing of them is an orphan."""
    from harness.cli.database import reading
    from harness.runner.hold import is_held
    from harness.store.records_runs import list_runs

    driven = {run_id for run_id in home.run_ids() if is_held(home.run(run_id))}
    if not home.db.exists():
        return driven
    with reading(home) as db:
        return driven | {record.run_id for record in list_runs(db, active_only=True)}


def objects_of(home: Home, name: str) -> RunObjects:
    """What exists of one run.

    Raises:
        UsageError: its harness is alive.
    """
    from harness.cli.database import run_id_of
    from harness.runner.hold import is_held
    from harness.sandbox.engine import connect
    from harness.sandbox.reaper import RunObjects, list_objects

    run_id = run_id_of(home, name)
    objects = list_objects(connect(), home).get(run_id, RunObjects(run_id=run_id))
    if objects.has_living_owner or is_held(home.run(run_id)):
        raise UsageError(f"run {run_id} is going on", f"Stop it first: `harness stop {run_id}`.")
    return objects


def confirm(*, is_confirmed: bool) -> None:
    """Asks on a terminal.

    Raises:
        UsageError: there is nobody to ask.
    """
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to confirm the removal", "Give --yes.")
    typer.confirm("Remove them?", abort=True, err=True)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "clean",
        epilog="Examples: harness clean --dry-run; harness clean --run 20260101T --yes; harness clean --snapshots",
    )(clean)
