"""How far a long read, copy or download is: a bar with amount, speed and time left, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.render import without_escapes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from harness.runner.progress import Progress

# Together with amount, speed and time left, a line of 80 characters.
MAX_WHAT, BAR_WIDTH = 30, 10


class ByteBar:
    """One bar, begun anew with each thing that is being done."""

    def __init__(self) -> None:
        self._what = ""
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def drawn(self, progress: Progress) -> RenderableType:
        """The bar as it stands with `progress`, which has `total_bytes`."""
        if self._bars is None or self._task is None or progress.message != self._what:
            self._what = progress.message
            self._bars = _bars()
            self._task = self._bars.add_task(_short(progress.message), total=progress.total_bytes)
        self._bars.update(self._task, completed=progress.done_bytes)
        return self._bars.get_renderable()


def _short(what: str) -> str:
    what = without_escapes(what)
    return what if len(what) <= MAX_WHAT else f"{what[: MAX_WHAT - 1]}…"


def _bars() -> Bars:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.table import Column

    def one_line() -> Column:
        return Column(no_wrap=True)

    return Progress(
        TextColumn("{task.description}", markup=False, table_column=one_line()),
        BarColumn(bar_width=BAR_WIDTH, table_column=one_line()),
        DownloadColumn(table_column=one_line()),
        TransferSpeedColumn(table_column=one_line()),
        TimeRemainingColumn(table_column=one_line()),
        auto_refresh=False,
    )
