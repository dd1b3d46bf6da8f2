"""How far the agent part of a run has come, on disk: survives a death of the harness and a stop by a person."""

from __future__ import annotations

from harness.domain.base import Frozen
from harness.home import RunFolder

FILE = "attempt.json"


class Attempt(Frozen):
    """`used_s`: agent time used up by earlier, stopped attempts; `is_started`: this one's container was started."""

    number: int = 1
    used_s: float = 0.0
    is_started: bool = False

    @classmethod
    def load(cls, folder: RunFolder) -> Attempt:
        """The attempt that the run is at."""
        path = folder.path / FILE
        return cls.model_validate_json(path.read_text()) if path.is_file() else cls()

    def save(self, folder: RunFolder) -> None:
        """Written in one rename: a reader sees the old or the new one."""
        stage = folder.path / f".{FILE}"
        stage.write_text(self.model_dump_json())
        stage.replace(folder.path / FILE)

    def started(self) -> Attempt:
        return self.model_copy(update={"is_started": True})

    def next(self, used_s: float) -> Attempt:
        """The attempt after this one was stopped, `used_s` of agent time used in all."""
        return Attempt(number=self.number + 1, used_s=used_s)
