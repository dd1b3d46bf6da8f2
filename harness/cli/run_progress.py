"""How a run is shown while it goes: one live line on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli import render
from harness.cli.byte_progress import ByteBar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from harness.runner.progress import Progress, Sink
    from harness.sandbox.image_build import BuildEvent

# Phases in which nothing can have been handed in.
BEFORE_AGENT = ("planned", "preparing", "baseline")
# Without a terminal: how often the state is repeated while nothing changes.
REPEAT_S = 60.0


@contextmanager
def showing_run() -> Iterator[Sink]:
    """A sink for a run's progress, drawn on stderr while the block runs."""
    console = render.messages_console()
    if not console.is_terminal:
        yield _Plain()
        return
    with console.status("starting") as status:
        yield _Live(console, status)


def show_build(event: BuildEvent) -> None:
    """One line per step of an image that a run needs."""
    if event.kind != "log":
        render.say(f"image {event.zone}: {event.text}")


def line_of(progress: Progress) -> str:
    """Phase, time used and left, baseline, best score so far, submissions (and how many are not scored yet)."""
    parts = [f"{progress.phase.value:<10}", clock(progress.elapsed_s)]
    if progress.remaining_s is not None:
        parts.append(f"left {clock(max(0.0, progress.remaining_s))}")
    if progress.baseline_pct is not None:
        parts.append(f"baseline {progress.baseline_pct:.1f} %")
    if progress.best_pct is not None:
        parts.append(f"best {progress.best_pct:.1f} %")
    if progress.submissions or progress.phase not in BEFORE_AGENT:
        waiting = f" ({progress.open_submissions} being scored)" if progress.open_submissions else ""
        parts.append(f"submissions {progress.submissions}{waiting}")
    return "  ".join(parts)


def clock(seconds: float) -> str:
    """`h:mm:ss`."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


class _Live:
    """Messages scroll by above one line that is kept up to date."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console, self._status = console, status
        self._bar = ByteBar()

    def __call__(self, progress: Progress) -> None:
        from rich.text import Text

        if progress.total_bytes:
            self._status.update(self._bar.drawn(progress))
        elif progress.message:
            render.say(f"{clock(progress.elapsed_s)} {progress.phase.value}: {progress.message}")
            # What was shown before may be done.
            self._status.update(Text(render.without_escapes(progress.message)))
        else:
            self._status.update(f"{progress.run_id}  {line_of(progress)}")


class _Plain:
    """The run's name, a line per message, and one whenever something other than the time has changed."""

    def __init__(self) -> None:
        self._run_id = ""
        self._last: tuple[object, ...] = ()
        self._at_s = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.run_id and progress.run_id != self._run_id:
            self._run_id = progress.run_id
            render.say(f"run {progress.run_id}")
        if progress.total_bytes:
            return
        if progress.message:
            render.say(f"{clock(progress.elapsed_s)} {progress.phase.value}: {progress.message}")
            return
        state = (progress.phase, progress.best_pct, progress.submissions, progress.open_submissions)
        if state != self._last or progress.elapsed_s - self._at_s >= REPEAT_S:
            self._last, self._at_s = state, progress.elapsed_s
            render.say(line_of(progress))
