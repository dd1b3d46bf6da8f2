"""`harness images`: the container images, built where missing or stale."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import render


def images(
    zones: Annotated[
        list[str] | None, typer.Argument(metavar="ZONE", help="Only these; default: all that runs ordinarily need.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build also what is up to date.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Then remove superseded images of ours.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Zone and tag, for machines.")] = False,
) -> None:
    """Build the container images that are missing or stale."""
    from harness.cli.image_progress import showing_builds
    from harness.sandbox.engine import connect
    from harness.sandbox.images import BuildRequest, build_images, detect_device, expected_tags, prune_images
    from harness.settings import load_settings

    settings = load_settings()
    request = BuildRequest(
        root=settings.root.resolve(),
        device=detect_device(settings.device),
        base_image=settings.base_image,
        zones=tuple(zones or ()),
        is_forced=force,
    )
    client = connect()
    with showing_builds() as progress:
        tags = build_images(client, request, progress)
    kept = expected_tags(request.root, request.device, request.base_image, with_optional=True)
    removed = prune_images(client, kept, with_build_stages=True) if prune else []
    for name in removed:
        render.say(f"removed {name}")
    if as_json:
        render.print_json(tags)
    else:
        render.print_table(("zone", "image"), tags.items())


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("images", epilog="Examples: harness images; harness images agent --force; harness images --prune")(
        images
    )
