"""The one function through which the harness runs another program on the host."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import InfrastructureError, PrerequisiteError
from harness.settings import child_environment


@dataclass(frozen=True)
class ProcessResult:
    """Exit code and output of a program that has ended."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def has_succeeded(self) -> bool:
        return self.exit_code == 0

    def last_lines(self, count: int = 20) -> str:
        """The last `count` lines of what it wrote, errors last: for a message to a person."""
        lines = [line for line in (*self.stdout.splitlines(), *self.stderr.splitlines()) if line.strip()]
        return "\n".join(lines[-count:])


def run_process(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Runs `argv` to its end, with `environment` added to the harness's own; a non-zero exit is a result, not an error.

    Raises:
        PrerequisiteError: the program does not exist here.
        InfrastructureError: it did not end within `timeout_s`; it and its children have been killed.
    """
    words = tuple(str(word) for word in argv)
    try:
        # A session of its own: Ctrl-C reaches the harness alone, which decides; and a time-out ends the children too.
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=child_environment(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise PrerequisiteError(
            f"program {words[0]} not found", "Install it: `make setup` does on Debian and Ubuntu."
        ) from error
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException as error:
            _kill_session(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise InfrastructureError(
                    f"`{' '.join(words)}` did not end within {timeout_s:.0f} s",
                    "It was killed; run it by hand to see why.",
                ) from error
            raise
    return ProcessResult(words, process.returncode, stdout, stderr)


def spawn_detached(argv: Sequence[str | Path], log: Path) -> int:
    """Starts `argv` in a session of its own that outlives this process, its output added to `log`; returns its pid.

    Raises:
        PrerequisiteError: the program does not exist here.
    """
    words = tuple(str(word) for word in argv)
    try:
        with log.open("ab") as output:
            return subprocess.Popen(
                words,
                env=child_environment({}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            ).pid
    except FileNotFoundError as error:
        raise PrerequisiteError(f"program {words[0]} not found", "Install it, and try again.") from error


def _kill_session(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
