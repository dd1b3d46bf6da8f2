"""Runs the agent's training script within a time limit, and finds what it has saved."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

KILL_AFTER_S = 20.0
REFUSED = (".bin", ".pt", ".pth", ".pkl", ".py")


@dataclass(frozen=True)
class Training:
    """How a training ended: its exit code, `None` where the time limit ended it, and its log."""

    exit_code: int | None
    seconds: float
    log: Path

    @property
    def has_failed(self) -> bool:
        return self.exit_code not in (0, None)

    def outcome(self) -> str:
        """One line for the agent."""
        if self.exit_code is None:
            return f"stopped at its time limit after {self.seconds:.0f} s"
        return f"exit code {self.exit_code} after {self.seconds:.0f} s"

    def tail(self, characters: int) -> str:
        """The log's end; a progress bar's overwritten states are left out."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 16 * characters))
            text = log.read().decode(errors="replace")
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
        return "\n".join(lines)[-characters:]


def command(python: str, script: Path, gpus: int) -> list[str]:
    """How a script is started: by `accelerate` with a process for each GPU where there are several."""
    if gpus < 2:
        return [python, str(script)]
    launch = [python, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    return [*launch, "--num_processes", str(gpus), "--mixed_precision", "no", "--dynamo_backend", "no", str(script)]


def train(arguments: list[str], log: Path, limit_s: float) -> Training:
    """Runs it in the current folder, its output to `log`; at the limit its whole process group is ended."""
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            exit_code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            _end_group(process)
    return Training(exit_code, time.monotonic() - started, log)


def checkpoints(output: Path) -> dict[Path, int]:
    """When each folder below `output` that can be a submission was last written, in nanoseconds.

    That is a folder with config and weights, and without pickles: the grader refuses a trainer's own states.
    """
    found = {}
    for folder in {path.parent for path in output.rglob("*.safetensors")}:
        files = [path for path in folder.iterdir() if path.is_file()]
        if (folder / "config.json") in files and not any(path.suffix in REFUSED for path in files):
            found[folder] = max(path.stat().st_mtime_ns for path in files)
    return found


def newest(after: dict[Path, int], before: dict[Path, int]) -> Path | None:
    """Of what has been written between two looks, what was written last."""
    written = [folder for folder, at in after.items() if before.get(folder) != at]
    return max(written, key=lambda folder: after[folder], default=None)


def gpu_count(devices: Path = Path("/dev")) -> int:
    """How many GPUs there are: a container has the device files of its own alone."""
    return len(list(devices.glob("nvidia[0-9]*")))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what the script left running, and the script itself: the next one needs the memory."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        if number is signal.SIGTERM and process.poll() is None:
            try:
                process.wait(KILL_AFTER_S)
            except subprocess.TimeoutExpired:
                continue
    process.wait()
