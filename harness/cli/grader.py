"""`harness up` and `harness down`: the grader, which alone writes the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render
from harness.errors import GraderUnavailable, PrerequisiteError, UsageError

if TYPE_CHECKING:
    from harness.runner.grader_client import GraderClient
    from harness.runner.host import Host


def up() -> None:
    """Start the grader, or repair it; nothing happens if it runs."""
    from harness.cli.image_progress import showing_builds
    from harness.runner.grader_client import GraderClient
    from harness.runner.host import Host
    from harness.runner.plan import product_tags
    from harness.settings import load_settings

    settings = load_settings()
    with showing_builds() as progress, Host.open(settings, progress) as host:
        grader, tag = GraderClient(host.home), product_tags(settings)["grader"]
        require_images(host, {"grader": tag})
        host.require_grader(tag, grader)
        active = grader.stats().active_runs
    render.say(f"the grader runs ({tag}); active runs: {', '.join(active) or 'none'}")


def require_images(host: Host, tags: dict[str, str]) -> None:
    """Does nothing if these images are here.

    Raises:
        PrerequisiteError: names the missing ones.
    """
    from harness.sandbox.images import missing_images

    if missing := missing_images(host.client, tags):
        raise PrerequisiteError(f"images are missing or stale: {', '.join(missing)}", "Build them: `harness images`.")


def down(
    force: Annotated[bool, typer.Option("--force", help="Also while runs are active: their scoring waits.")] = False,
) -> None:
    """Stop the grader; the record stays and can be read."""
    from harness.runner.grader_client import GraderClient
    from harness.sandbox.compose import compose_down
    from harness.sandbox.egress import remove_egress
    from harness.sandbox.engine import connect
    from harness.settings import load_settings

    settings = load_settings()
    home = settings.resolved_home()
    if not force:
        refuse_if_busy(GraderClient(home))
    client = connect()
    was_there = compose_down(client, settings.root.resolve(), home)
    remove_egress(client, home)
    render.say("the grader was stopped" if was_there else "there was no grader")


def refuse_if_busy(grader: GraderClient) -> None:
    """Does nothing if no run needs the grader.

    Raises:
        UsageError: names the runs.
    """
    try:
        active = grader.stats().active_runs
    except GraderUnavailable:
        return
    if active:
        raise UsageError(f"the grader is in use by {', '.join(active)}", "Stop those runs, or give --force.")


def register(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command("up", epilog="Example: harness up")(up)
    app.command("down", epilog="Example: harness down")(down)
