"""Tables, JSON and consoles: how the command line shows things, with or without a terminal and colour."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A table's column is readable from this width on, and costs so much more beside it.
MIN_COLUMN, GAP = 16, 3
# The first column names the row: up to this width it is never folded, so that an id can be copied.
MAX_NAME = 32
# Single characters that a text does not need and a terminal obeys: control characters other than newline and tab (each
# as one byte too: C1), what turns the direction of writing, what is there and not seen, halves of a character.
_UNWANTED = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff"
)
TERMINAL_ESCAPE = re.compile(
    # CSI; strings of OSC, DCS and the like to their end, or the line's; two and three characters; single ones.
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]+[0-~]|\x1b."
    rf"|[{_UNWANTED}]"
)
_LINE_END = re.compile("\r\n|\u2028|\u2029")
# Those of them that JSON leaves as they are.
_JSON_UNWANTED = re.compile(rf"(?![\n\t])[{_UNWANTED}]")


@cache
def messages_console() -> Console:
    """The one console on stderr: progress, messages."""
    from rich.console import Console

    return Console(stderr=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """One table on stdout, numbers to the right; where a terminal is too narrow for it, a block per row."""
    all_rows = [list(row) for row in rows]
    texts = [[as_text(value, name) for name, value in zip(columns, row, strict=True)] for row in all_rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *texts, strict=True)]
    screen = _screen()
    if screen is not None and _readable(widths) > screen:
        for row in texts:
            print_facts(dict(zip(columns, row, strict=True)))
            print()
        return
    # Without a terminal nothing may be cut off or folded: another program or a file reads it.
    console = _data_console(screen or sum(widths) + GAP * len(widths) + len(title) + GAP)
    console.print(_table(columns, all_rows, texts, title))


def _readable(widths: Sequence[int]) -> int:
    """The narrowest screen on which columns of these widths can be read."""
    first, *others = widths
    return min(first, MAX_NAME) + sum(min(width, MIN_COLUMN) for width in others) + GAP * len(widths)


def _table(columns: Sequence[str], rows: list[list[Any]], texts: list[list[str]], title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, title=Text(title) if title else None, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        values = [row[index] for row in rows if row[index] is not None]
        is_number = bool(values) and all(isinstance(value, int | float) for value in values)
        is_whole = index == 0 and max(len(text[0]) for text in [columns, *texts]) <= MAX_NAME
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_whole)
    for row in texts:
        table.add_row(*[Text(text) for text in row])
    return table


def _data_console(width: int) -> Console:
    """A console on stdout."""
    from rich.console import Console

    return Console(width=width)


def print_json(value: Any) -> None:
    """`value` as indented JSON on stdout; models and times included; what a terminal would obey is escaped."""
    text = json.dumps(value, indent=2, default=_as_json, ensure_ascii=False)
    print(_JSON_UNWANTED.sub(lambda found: json.dumps(found[0])[1:-1], text))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Header and rows as CSV on stdout: exact, but for what a terminal would obey where it goes to one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    print(without_escapes(text.getvalue()) if sys.stdout.isatty() else text.getvalue(), end="")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Name and value, one pair a line, on stdout; empty values are left out. A terminal gets no line that is wider
    than it is, but for a path or an id, which can be copied."""
    width = max((len(name) for name in facts), default=0)
    room = max(MIN_COLUMN, (_screen() or sys.maxsize) - width - 2)
    for name, value in facts.items():
        if value is not None and value != "":
            # What is told of a checkpoint may have several lines: none of them may look like a fact.
            lines = [part for line in as_text(value, name).splitlines() for part in _folded(line, room)]
            print(f"{name:<{width}}  " + f"\n{'':<{width}}  ".join(lines))


def _folded(line: str, room: int) -> list[str]:
    if len(line) <= room:
        return [line]
    return textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)


def _screen() -> int | None:
    """How wide the terminal is; None without one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def say(message: str) -> None:
    """One message on stderr; it may hold what an agent, a container or a provider said."""
    messages_console().print(without_escapes(message), markup=False, highlight=False, soft_wrap=True)


def as_text(value: Any, name: str = "") -> str:
    """How a cell of the column `name` is shown: points with one decimal, small rates and probabilities with three
    digits that count, times in UTC to the second, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        is_small = 0 < abs(value) < 1 and not name.endswith("_pct")
        return f"{value:.3g}" if is_small else f"{value:.1f}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return without_escapes(str(value))


def without_escapes(text: str) -> str:
    """`text` without terminal escapes and control characters: an agent's words must not drive a terminal."""
    return TERMINAL_ESCAPE.sub("", _LINE_END.sub("\n", text))


def _as_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return value.isoformat() if isinstance(value, datetime) else str(value)
