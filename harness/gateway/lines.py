"""A file of lines about what begins and ends: one line before and one after, so that a restart knows what was open."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from harness.domain.base import Numbered
from harness.errors import InfrastructureError

BEGUN, ENDED = "begun", "ended"
ENDED_MARK = f'{{"{ENDED}"'.encode()


R = TypeVar("R", bound=Numbered)


@dataclass
class Left(Generic[R]):
    """What an earlier process left open, and the last number that it gave."""

    open: dict[int, R] = field(default_factory=dict)
    last_number: int = 0


class Lines(Generic[R]):
    """Append-only lines of one file: `{"begun": row}` and `{"ended": row}`."""

    def __init__(self, path: Path, model: type[R]) -> None:
        self._path = path
        self._model = model

    def take_up(self, ended: Callable[[R], None]) -> Left[R]:
        """What is there, `ended` being told each row that has ended, in the order of its end.

        The last line is whole afterwards, so that a later one does not stick to a torn one.

        Raises:
            InfrastructureError: the file is damaged other than by a kill.
        """
        left = Left[R]()
        for kind, row in self._read(self._lines()):
            left.last_number = max(left.last_number, row.number)
            if kind == BEGUN:
                left.open[row.number] = row
            else:
                left.open.pop(row.number, None)
                ended(row)
        self._end_torn_line()
        return left

    def begun(self, row: R) -> None:
        """Something begins; `row` is what is known of it."""
        self._write(BEGUN, row)

    def ended(self, row: R) -> None:
        """It has ended, and `row` is what came of it."""
        self._write(ENDED, row)

    def rows(self, skip: int = 0, limit: int | None = None) -> list[R]:
        """What has ended, in the order of its end, without the first `skip`, at most `limit`."""
        # By how a line begins and ends: whoever asks again and again must not have all that it knows read anew.
        ended = ((n, line) for n, line in self._lines() if line.startswith(ENDED_MARK) and line.endswith(b"}}"))
        wanted = islice(ended, skip, None if limit is None else skip + limit)
        return [row for _, row in self._read(wanted)]

    def _write(self, kind: str, row: R) -> None:
        line = json.dumps({kind: row.model_dump(mode="json")}, separators=(",", ":")).encode() + b"\n"
        # Opened each time: a run that has ended leaves no descriptor behind, whenever the last of it ends.
        with self._path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            if file.write(line) < len(line):
                # The disk is full: a later line must not stick to the half of this one, and be lost with it.
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line that is not empty, with its number; one at a time, as how many there are is up to an agent."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            lines = (line.removesuffix(b"\n") for line in file)
            yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())

    def _read(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[str, R]]:
        """What whole lines say; a torn one is passed over, wherever a later start has gone on behind it."""
        for number, line in lines:
            try:
                value: Any = json.loads(line)
            except ValueError:
                continue
            try:
                ((kind, row),) = value.items()
                yield kind, self._model.model_validate(row)
            except (ValueError, AttributeError, TypeError, ValidationError) as error:
                what = f"{self._path}, line {number}, is no {self._model.__name__}"
                raise InfrastructureError(what, "Move the file away.") from error

    def _end_torn_line(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read(1) != b"\n":
                file.write(b"\n")
