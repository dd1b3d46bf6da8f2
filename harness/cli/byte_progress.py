"""How far a long read, copy or download is: a bar with amount, speed and time left, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from harness.runner.progress import Progress


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
            self._task = self._bars.add_task(progress.message, total=progress.total_bytes)
        self._bars.update(self._task, completed=progress.done_bytes)
        return self._bars.get_renderable()


def _bars() -> Bars:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        auto_refresh=False,
    )
