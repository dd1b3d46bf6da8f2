"""A trajectory from an agent's own logs: what the agent says that it did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from harness.errors import UsageError
from harness.regular_file import opened
from harness.trajectory.atif import Trajectory
from harness.trajectory.building import Builder
from harness.trajectory.formats import claude, codex, gemini, mini_swe_agent, opencode, openhands, rdagent

Reader = Callable[[BinaryIO, Builder], None]
READERS: dict[str, Reader] = {
    "claude": claude.read,
    "codex": codex.read,
    "gemini": gemini.read,
    "mini-swe-agent": mini_swe_agent.read,
    "opencode": opencode.read,
    "openhands": openhands.read,
    "rdagent": rdagent.read,
}


def reader_of(name: str | None) -> Reader:
    """The reader for `trajectory_format` of an agent's folder.

    Raises:
        UsageError: there is none.
    """
    if name not in READERS:
        raise UsageError(
            f"no reader for the trajectory format {name!r}",
            f"`trajectory_format` in the agent's config.yaml is one of: {', '.join(READERS)}.",
        )
    return READERS[name]


def read_native(files: Iterable[Path], name: str | None, agent: str) -> Trajectory | None:
    """The trajectory in the logs of one run, those of continuations behind the first; None if they hold no step.

    Raises:
        UsageError: nothing here reads such logs.
    """
    reader, builder = reader_of(name), Builder(agent)
    for path in sorted(files, key=_natural):
        with opened(path) as file:
            if file is not None:
                reader(file, builder)
    return builder.done()


def _natural(path: Path) -> list[tuple[str, int]]:
    """`log-2` before `log-10`."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D*)(\d{0,18})", str(path))]
