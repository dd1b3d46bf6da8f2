"""The one way to run another program."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from harness.errors import InfrastructureError, PrerequisiteError
from harness.sandbox.process import ProcessResult, run_process


def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['EXTRA']); print('bad', file=sys.stderr); sys.exit(3)"
    result = run_process([sys.executable, "-c", code], timeout_s=20, folder=tmp_path, environment={"EXTRA": "yes"})
    assert (result.exit_code, result.has_succeeded) == (3, False)
    assert result.stdout.split() == [str(tmp_path), "yes"]
    assert result.last_lines() == f"{tmp_path} yes\nbad"


def test_a_missing_program_is_a_prerequisite() -> None:
    with pytest.raises(PrerequisiteError, match="no-such-program"):
        run_process(["no-such-program"], timeout_s=5)


def test_time_out_ends_the_children_too(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with pytest.raises(InfrastructureError, match="did not end within"):
        run_process(["sh", "-c", f"sleep 60 & echo $! > {mark}; wait"], timeout_s=0.5)
    deadline = time.monotonic() + 5
    while is_alive(mark.read_text().strip()):
        assert time.monotonic() < deadline, "the child outlived the time-out"


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_only_the_last_lines_are_kept_for_messages() -> None:
    result = ProcessResult(("x",), 1, "\n".join(str(number) for number in range(50)), "")
    assert result.last_lines(2) == "48\n49"
