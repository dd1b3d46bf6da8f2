"""How image builds are shown: one live line per image on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli import render

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from harness.sandbox.image_build import BuildEvent, Progress

MAX_TEXT = 70


@contextmanager
def showing_builds() -> Iterator[Progress]:
    """A sink for build events, drawn on stderr while the block runs."""
    console = render.messages_console()
    if not console.is_terminal:
        yield _say_event
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=console) as bars:
        yield _Live(bars)


class _Live:
    """Draws events as one bar per image."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: BuildEvent) -> None:
        text = render.without_escapes(event.text).strip()[:MAX_TEXT]
        if event.kind == "note":
            render.say(f"{event.zone}: {event.text}" if event.zone else event.text)
            return
        if event.zone not in self._tasks:
            self._tasks[event.zone] = self._bars.add_task(event.zone, total=None, text="")
        task = self._tasks[event.zone]
        if event.kind == "step":
            self._bars.update(task, completed=event.step - 1, total=event.steps, text=text)
        elif event.kind == "done":
            total = self._bars.tasks[task].total or 1
            self._bars.update(task, completed=total, total=total, text=text)
            self._bars.stop_task(task)
        else:
            self._bars.update(task, text=text)


def _say_event(event: BuildEvent) -> None:
    """One plain line; the build's own output is left out (it is in the error if the build fails)."""
    if event.kind == "log":
        return
    step = f" [{event.step}/{event.steps}]" if event.kind == "step" else ""
    render.say(f"{event.zone}{step} {event.kind if event.kind in ('start', 'done') else ''} {event.text}".strip())
