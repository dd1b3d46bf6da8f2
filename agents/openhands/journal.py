"""What the pipeline has done so far: kept over a restart, told to the agent, and written down in summary.md."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One iteration: how the training ended, what was submitted, its score or why there is none, the agent's words."""

    iteration: int
    training: str
    checkpoint: str | None = None
    score: float | None = None
    trouble: str | None = None
    analysis: str = ""

    def line(self) -> str:
        """All but the analysis, in one line."""
        result = f"score {self.score}" if self.score is not None else f"no score ({self.trouble})"
        return f"iteration {self.iteration}: {result}; training: {self.training}; checkpoint: {self.checkpoint}"


class Journal:
    """The entries in `state`, a JSON file of the pipeline's own; `summary` is for people, and for the agent to read."""

    def __init__(self, state: Path, summary: Path) -> None:
        self.state, self.summary = state, summary
        rows = json.loads(state.read_text()) if state.is_file() else []
        self.entries = [Entry(**row) for row in rows]

    @property
    def next_iteration(self) -> int:
        return len(self.entries) + 1

    def add(self, entry: Entry) -> None:
        """Keeps an entry; whole or not at all, whenever the pipeline is killed."""
        self.entries.append(entry)
        self.state.parent.mkdir(parents=True, exist_ok=True)
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps([asdict(one) for one in self.entries], indent=1))
        new.replace(self.state)
        with self.summary.open("a", encoding="utf-8") as summary:
            summary.write(
                f"## Iteration {entry.iteration}\n\n{entry.line()}\n\n{entry.analysis}\n\n".replace("\n\n\n", "\n")
            )

    def best(self) -> Entry | None:
        """The iteration with the highest score."""
        scored = [entry for entry in self.entries if entry.score is not None]
        return max(scored, key=lambda entry: entry.score or 0.0, default=None)
