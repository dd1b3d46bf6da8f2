"""Files of items: read with errors that name the line, and divided line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.domain.division import hidden_flags
from harness.domain.items import Item, parse_item
from harness.errors import UsageError
from harness.runner.data_sources import EVAL_FILE

MAX_LINE_BYTES = 8 * 2**20


def read_items(path: Path) -> Sequence[Item]:
    """Items of a JSONL file with `question` and `answer`.

    Raises:
        UsageError: a line is no such record, an id comes twice among hidden items, or the file is empty.
    """
    items = [item for item, _ in _lines(path)]
    ids = {item.id for item in items}
    if not items:
        raise UsageError(f"{path.name} holds no items")
    if path.name == EVAL_FILE and len(ids) != len(items):
        raise UsageError(f"{path.name} holds {len(items)} items with {len(ids)} different ids", "Ids must be unique.")
    return items


def divide_file(whole: Path, public: Path, hidden: Path, hidden_share: float) -> None:
    """Writes each line of `whole` to one of the two files, in its order; of equal hidden items one is kept.

    Raises:
        UsageError: a line is no item, or they cannot be divided.
    """
    found = list(_lines(whole))
    flags = hidden_flags([item.question for item, _ in found], hidden_share)
    seen: set[tuple[str, str, str]] = set()
    with public.open("w", encoding="utf-8") as public_lines, hidden.open("w", encoding="utf-8") as hidden_lines:
        for (item, line), is_hidden in zip(found, flags, strict=True):
            if not is_hidden:
                public_lines.write(line + "\n")
            elif (content := (item.id, item.question, item.answer)) not in seen:
                seen.add(content)
                hidden_lines.write(line + "\n")


def _lines(path: Path) -> Iterator[tuple[Item, str]]:
    """Each item with its line."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _item(path, number, line), line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name} is no UTF-8 text: {error.reason}", "Write it as UTF-8.") from error


def _item(path: Path, number: int, line: str) -> Item:
    try:
        item = parse_item(json.loads(line[:MAX_LINE_BYTES]))
        # Lone surrogates cannot be hashed, sent or stored.
        f"{item.id}{item.question}{item.answer}".encode()
        return item
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path.name} line {number} is no item: {error!r}"[:500]) from error
