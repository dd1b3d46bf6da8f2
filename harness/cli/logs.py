"""`harness logs`: what an agent printed, safe to show in a terminal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import render
from harness.cli.selection import LATEST, RunArgument
from harness.cli.trajectory import Origin, show_trajectory
from harness.errors import UsageError
from harness.home import Home, RunFolder

POLL_S = 0.5
# One piece of output at most; an agent may write gigabytes without a newline.
MAX_PIECE = 65_536


def logs(
    run: RunArgument = LATEST,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Byte for byte, terminal escapes included.")] = False,
    trajectory: Annotated[bool, typer.Option("--trajectory", "-t", help="What it said and did, turn by turn.")] = False,
    origin: Annotated[
        Origin, typer.Option("--from", help="A trajectory from the agent's own logs, or what its LLM really got.")
    ] = Origin.NATIVE,
    tail: Annotated[int | None, typer.Option(min=1, help="The last so many lines, or steps of a trajectory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole trajectory as ATIF.")] = False,
) -> None:
    """Show what an agent printed, without terminal escapes."""
    from harness.cli.database import run_id_of
    from harness.settings import load_settings

    home = load_settings().resolved_home()
    run_id = run_id_of(home, run)
    if trajectory:
        if follow or raw:
            raise UsageError("a trajectory is neither followed nor raw", "Leave out --follow and --raw.")
        show_trajectory(home, run_id, origin, tail, as_json=as_json)
        return
    if as_json:
        raise UsageError("--json is of a trajectory", "Add --trajectory.")
    if tail and follow:
        raise UsageError("a log is followed from its beginning", "Leave out --tail or --follow.")
    folder = folder_of(home, run_id)
    if not follow and not folder.agent_log.is_file():
        raise UsageError(f"the run has no log: {folder.agent_log}", "Its agent was never started.")
    # The token goes when the run ends.
    found = pieces(folder.agent_log, lambda: not (follow and folder.token.exists()))
    for piece in deque(found, maxlen=tail) if tail else found:
        if raw:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        else:
            print(shown(piece), end="", flush=True)


def shown(piece: bytes) -> str:
    """A piece of a log as it is shown: a bar that is drawn over itself becomes lines."""
    text = piece.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n") if piece.strip() else "\n"
    return render.without_escapes(text)


def folder_of(home: Home, run_id: str) -> RunFolder:
    """The run's folder.

    Raises:
        UsageError: it is not in this home (the run was imported, or cleaned).
    """
    folder = home.run(run_id)
    if not folder.path.is_dir():
        raise UsageError(f"{folder.path} is not there", "Its rows are: `harness show` works all the same.")
    return folder


def pieces(log: Path, is_over: Callable[[], bool]) -> Iterator[bytes]:
    """The log by lines, at most MAX_PIECE bytes each; what is added is waited for until `is_over`."""
    position, inode = 0, _inode(log)
    while True:
        # Asked before reading, so that what was written last is still read.
        is_last = is_over()
        if inode != (now := _inode(log)):
            # The agent of a run that is taken up again has a log of its own.
            position, inode = 0, now
        for piece in _from(log, position, is_last=is_last):
            position += len(piece)
            yield piece
        if is_last:
            return
        time.sleep(POLL_S)


def _inode(path: Path) -> int | None:
    return path.stat().st_ino if path.is_file() else None


def _from(path: Path, position: int, *, is_last: bool) -> Iterator[bytes]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        file.seek(position)
        while piece := file.readline(MAX_PIECE):
            # Half a line may hold half an escape sequence: wait for the rest of it.
            if not piece.endswith(b"\n") and len(piece) < MAX_PIECE and not is_last:
                return
            yield piece


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("logs", epilog="Examples: harness logs latest --follow; harness logs --trajectory --tail 5")(logs)
