"""Logs as text, read as the file that they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.trajectory.atif import Trajectory
from harness.trajectory.native import read_native


@pytest.fixture
def native(tmp_path: Path) -> Callable[[str, str | bytes], Trajectory | None]:
    """Reads one log in the format of this name."""

    def read(name: str, log: str | bytes) -> Trajectory | None:
        path = tmp_path / "log"
        path.write_bytes(log.encode() if isinstance(log, str) else log)
        return read_native([path], name, name)

    return read
