"""`harness doctor`: what this machine has, and the proof that the sandbox holds here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import render
from harness.cli.grader import require_images

if TYPE_CHECKING:
    from harness.runner.host import Host
    from harness.sandbox.doctor import DoctorReport, ProbeResult

EXIT_NOT_TIGHT = 3
MAX_DETAIL = 100


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Every fact and probe, for machines.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Probe again, also if nothing has changed.")] = False,
) -> None:
    """Show what this machine has, and probe the sandbox from inside."""
    from harness.cli.image_progress import showing_builds
    from harness.runner.grader_client import GraderClient
    from harness.runner.host import Host
    from harness.runner.plan import product_tags
    from harness.sandbox.doctor import ProbedImages, examine, isolation_report
    from harness.settings import load_settings

    settings = load_settings()
    tags = product_tags(settings)
    with showing_builds() as progress, Host.open(settings, progress) as host:
        facts = facts_of(host)
        require_images(host, {zone: tags[zone] for zone in ("grader", "agent", "gateway")})
        host.require_grader(tags["grader"], GraderClient(host.home))
        look = examine if no_cache else isolation_report
        images = ProbedImages(agent=tags["agent"], gateway=tags["gateway"])
        report = look(host.client, host.home, settings, images)
    if as_json:
        render.print_json({"ok": report.ok, "machine": facts, "probes": list(report.results)})
    else:
        show(facts, report)
    if not report.ok:
        raise typer.Exit(EXIT_NOT_TIGHT)


def facts_of(host: Host) -> dict[str, Any]:
    """What matters of this machine to the harness."""
    from harness.sandbox.compose import find_compose
    from harness.sandbox.disk import choose_mode
    from harness.sandbox.images import detect_device

    engine = host.engine
    return {
        "docker": engine.version,
        "compose": " ".join(find_compose()),
        "cgroups": engine.cgroup_version,
        "storage": engine.storage_driver,
        "runtimes": ", ".join(engine.runtimes),
        "cores": engine.cores,
        "memory_mb": engine.memory_mb,
        "size_limit": choose_mode(host.settings).value,
        "images_for": detect_device(host.settings.device),
        "home": str(host.home.path),
    }


def show(facts: dict[str, Any], report: DoctorReport) -> None:
    """Facts and probes, on stdout."""
    render.print_facts({name.replace("_", " "): value for name, value in facts.items()})
    rows = [("ok" if probe.ok else "FAILED", probe.name, shorten(probe)) for probe in report.results]
    render.print_table(("result", "probe", "detail"), rows)
    verdict = "the sandbox holds" if report.ok else f"{len(report.failed)} probes FAILED: no run is started here"
    render.say(f"{len(report.results)} probes: {verdict}")


def shorten(probe: ProbeResult) -> str:
    """A probe's detail: whole where it failed, its beginning where not (`--json` has it all)."""
    is_long = probe.ok and len(probe.detail) > MAX_DETAIL
    return f"{probe.detail[:MAX_DETAIL]} ..." if is_long else probe.detail


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("doctor", epilog="Examples: harness doctor; harness doctor --no-cache --json")(doctor)
