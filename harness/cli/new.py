"""`harness new`: a benchmark's or an agent's folder to begin with, or a draft that an LLM makes from a repository."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import render

if TYPE_CHECKING:
    from harness.authoring.chat import ChatEndpoint
    from harness.settings import Settings

EXIT_FAILED = 1
NO_LLM = "none"


@dataclass(frozen=True)
class _Wish:
    """How a draft is to be made."""

    llm: str | None
    base_url: str | None
    repairs: int
    data_dir: Path | None


class Kind(StrEnum):
    """What can be made."""

    BENCHMARK = "benchmark"
    AGENT = "agent"


def new(
    kind: Annotated[Kind, typer.Argument(help="What to make.")],
    name: Annotated[str, typer.Argument(help="Name of the folder, and of the task or agent.")],
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder to make it in; default: benchmarks/ of the checkout; HARNESS_AGENTS_DIR, or agents/."
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="https URL of a git repository, or a folder, to draft it from.")
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            help="Of a draft: the model; default: CHAT_MODEL. Of an agent: the protocol of the LLM that drives it "
            "(openai, anthropic, gemini), or none."
        ),
    ] = None,
    llm_base_url: Annotated[
        str | None, typer.Option(help="Its OpenAI-compatible endpoint (.../v1); default: OPENAI_API_BASE.")
    ] = None,
    repairs: Annotated[int, typer.Option(min=0, max=5, help="Times that what fails is sent back to it.")] = 2,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with data files for the draft's checks.")] = None,
) -> None:
    """Make a benchmark or agent folder that passes its checks."""
    from harness.errors import UsageError
    from harness.settings import load_settings

    settings = load_settings()
    if kind is Kind.AGENT:
        if source or llm_base_url or data_dir:
            raise UsageError("--from, --llm-base-url and --data-dir are of benchmarks: no agent is drafted")
        _new_agent(settings, name, into, llm or NO_LLM)
    elif source is not None:
        _draft(settings, _benchmark_folder(settings, name, into), source, _Wish(llm, llm_base_url, repairs, data_dir))
    elif llm is not None or llm_base_url is not None:
        raise UsageError("--llm needs something to draft from", "Name a repository or a folder with --from.")
    else:
        _new_benchmark(settings, name, into)


def _benchmark_folder(settings: Settings, name: str, into: Path | None) -> Path:
    from harness.authoring.template_folder import free_folder

    return free_folder(into or settings.root / "benchmarks", name)


def _new_benchmark(settings: Settings, name: str, into: Path | None) -> None:
    from harness.authoring.template_folder import write_benchmark

    folder = _benchmark_folder(settings, name, into)
    for path in write_benchmark(settings.root, folder):
        render.say(f"wrote {path}")
    where = name if into is None else str(folder)
    render.say(
        f"It passes the contract suite as it is: harness check benchmark {where}\n"
        "Now change it, piece by piece: data.py (your data), eval.py (right or wrong), config.yaml (prompt, length,\n"
        "licences), description.md (what the agent is told), and check it again. More: docs/benchmarks.md"
    )


def _new_agent(settings: Settings, name: str, into: Path | None, protocol: str) -> None:
    from harness.authoring.template_folder import free_folder, write_agent
    from harness.domain.llm import PROVIDERS
    from harness.errors import UsageError

    protocols = (NO_LLM, *PROVIDERS)
    if protocol not in protocols:
        raise UsageError(f"no protocol {protocol!r}", f"Give --llm one of: {', '.join(protocols)}.")
    folder = free_folder(into or settings.agents_dir or settings.root / "agents", name)
    for path in write_agent(settings.root, folder, protocol):
        render.say(f"wrote {path}")
    where = name if into is None else str(folder)
    key = "" if protocol == NO_LLM else " --llm URL --llm-key-file FILE"
    render.say(
        f"It passes the contract suite as it is: harness check agent {where}\n"
        f"and runs: harness run --agent {name} --task arithmetic{key}\n"
        "Now put your own in its place. More: docs/agents.md"
    )


def _draft(settings: Settings, folder: Path, source: str, wish: _Wish) -> None:
    """Has an LLM draft the folder, shows what the contract suite says of it, and leaves it with its report."""
    from harness.authoring.drafting import REPORT, Drafting
    from harness.authoring.repository import digest_of, fetched
    from harness.authoring.scratch import scratch_folder
    from harness.cli.check import checked, workshop

    endpoint = _endpoint(settings, wish)
    with workshop(settings) as place, scratch_folder(place.scratch) as scratch:
        digest = digest_of(source, fetched(source, scratch))
        render.say(f"read {digest.quoted} of {digest.files} files")
        data_dir = wish.data_dir.resolve() if wish.data_dir else None
        drafting = Drafting(
            folder=folder,
            digest=digest,
            endpoint=endpoint,
            check=lambda draft: checked(settings, draft, data_dir, place),
            say=render.say,
        )
        report = drafting.run(wish.repairs)
    render.say(f"the draft and its report are in {folder}; read every file, {REPORT} first")
    if not report.has_passed:
        raise typer.Exit(EXIT_FAILED)


def _endpoint(settings: Settings, wish: _Wish) -> ChatEndpoint:
    from harness.authoring.chat import ChatEndpoint
    from harness.errors import UsageError

    model, base_url = wish.llm or settings.chat_model, wish.base_url or settings.openai_api_base
    if not model:
        raise UsageError("no LLM is named", "Give --llm MODEL, or set CHAT_MODEL.")
    if not base_url:
        raise UsageError("no endpoint of the LLM is named", "Give --llm-base-url, or set OPENAI_API_BASE.")
    return ChatEndpoint(base_url=base_url, model=model, key=settings.openai_api_key)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(
        "new",
        epilog="Examples: harness new benchmark mytask; harness new agent mine --llm openai; "
        "harness new benchmark mytask --from https://github.com/org/repo --llm gpt-5 --llm-base-url https://host/v1",
    )(new)
