"""How far the agent part of a run has come, on disk: survives a death of the harness and a stop by a person."""

from __future__ import annotations

from datetime import datetime

from harness.domain.base import Frozen
from harness.home import RunFolder
from harness.runner.files import write_whole

FILE = "attempt.json"


class Attempt(Frozen):
    """`used_s`: agent time used up by earlier, stopped attempts; `is_started`: this one's container was started.

    `continuation`: how often the agent was taken up again after an early end; `calls` and `submissions` are what the
    run had of them when this part began, `idle_parts` how many continuations in a row have added nothing to them.

    `stopped_at`: a person has asked for a stop then, or this is when the agent ended upon it. It is there before
    anything is stopped, so that a stop which is broken off can be told from an agent that ended.
    """

    number: int = 1
    used_s: float = 0.0
    is_started: bool = False
    continuation: int = 0
    calls: int = 0
    submissions: int = 0
    idle_parts: int = 0
    # Whether its clock goes on from the part before.
    is_continuing: bool = False
    stopped_at: datetime | None = None

    @classmethod
    def load(cls, folder: RunFolder) -> Attempt:
        """The attempt that the run is at."""
        path = folder.path / FILE
        return cls.model_validate_json(path.read_text()) if path.is_file() else cls()

    def save(self, folder: RunFolder) -> None:
        """Puts it in the place of the one before."""
        write_whole(folder.path / FILE, self.model_dump_json())

    def started(self) -> Attempt:
        return self.model_copy(update={"is_started": True})

    def unstarted(self) -> Attempt:
        return self.model_copy(update={"is_started": False})

    def stopped(self, at: datetime) -> Attempt:
        return self.model_copy(update={"stopped_at": at})

    def next(self, used_s: float) -> Attempt:
        """The attempt after this one was stopped, `used_s` of agent time used in all."""
        fields = {"number": self.number + 1, "used_s": used_s, "is_started": False, "is_continuing": False}
        return self.model_copy(update={**fields, "stopped_at": None})

    def continued(self, calls: int, submissions: int) -> Attempt:
        """The part after this one ended early, with what the run has by now."""
        is_idle = self.continuation > 0 and (calls, submissions) == (self.calls, self.submissions)
        fields = {
            "is_started": False,
            "is_continuing": True,
            "continuation": self.continuation + 1,
            "calls": calls,
            "submissions": submissions,
            "idle_parts": self.idle_parts + 1 if is_idle else 0,
        }
        return self.model_copy(update=fields)
