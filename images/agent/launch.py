"""Runs an agent's script, and after its end waits for what it has left at work in the background.

A command line that ends its turn takes nothing with it: a training that it started goes on, and with the container it
would be cut off. So the container lives until nothing else is left in it, nothing has been busy for a while (a tmux
server or `tail -f` must not hold a run), or the time is up, which `timeout` above this sees to. Standard library only.

    python3 -I -S launch.py <command> [argument ...]

The exit code is the command's, 128 + number where a signal ended it. LAUNCH_IDLE_S: seconds without a busy process.
"""

import os
import signal
import sys
import time
from contextlib import suppress

Ticks = dict[int, int]

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# What Python ignores; a command that inherited that would not end as one does from a shell.
DEFAULTED = (signal.SIGPIPE, signal.SIGXFSZ)
IDLE_S = 60.0
LOOK_EVERY_S = 5.0
# A process that uses more of a core than this is at work; command lines that wait for a key use less.
BUSY_SHARE = 0.02
BUSY_GPU_PCT = 5
# What ends together with the command, as the rest of a pipeline, is no background work.
AFTER_S, AFTER_LOOK_S = 1.0, 0.05
# How long what is left may take to end once it was told to.
END_S = 5.0
GPU_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
GPU_TIMEOUT_S = 10


class Command:
    """The command in a process group of its own, which gets the signals that come here."""

    def __init__(self) -> None:
        self.pid = 0
        self.is_told_to_end = False
        for number in FORWARDED:
            signal.signal(number, self._forward)

    def run(self, argv: list[str]) -> int:
        """Its exit code."""
        no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        try:
            self.pid = os.posix_spawnp(
                argv[0], argv, os.environ, file_actions=[no_input], setpgroup=0, setsigdef=DEFAULTED
            )
        except OSError as error:
            say(f"{argv[0]}: {error.strerror}")
            return 127 if isinstance(error, FileNotFoundError) else 126
        if self.is_told_to_end:
            # The signal came before there was anybody to tell.
            os.killpg(self.pid, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 128 - code if code < 0 else code

    def _forward(self, number: int, _frame: object) -> None:
        self.is_told_to_end = True
        if self.pid:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def main() -> int:
    command = Command()
    code = command.run(sys.argv[1:])
    if others_after(AFTER_S) and not command.is_told_to_end:
        wait_for_background(command, float(os.environ.get("LAUNCH_IDLE_S", IDLE_S)))
    if command.is_told_to_end:
        end_others()
    return code


def others_after(seconds: float) -> Ticks:
    """The other processes that are still there after so long; returns as soon as there is none."""
    until = time.monotonic() + seconds
    while (found := others()) and time.monotonic() < until:
        time.sleep(AFTER_LOOK_S)
    return found


def wait_for_background(command: Command, idle_s: float) -> None:
    """Returns when nothing else is left, nothing was busy for `idle_s`, or all are to end."""
    before, busy_at, step = others(), time.monotonic(), min(LOOK_EVERY_S, idle_s / 4)
    say(f"the agent's script has ended; waiting for its background work: {names(before)}")
    while before and not command.is_told_to_end:
        began = time.monotonic()
        # In slices: a signal does not cut a sleep short.
        while time.monotonic() - began < step and not command.is_told_to_end:
            time.sleep(AFTER_LOOK_S)
        now = others()
        if is_busy(before, now, time.monotonic() - began) or (now and has_busy_gpu()):
            busy_at = time.monotonic()
        if time.monotonic() - busy_at >= idle_s:
            say(f"not waiting any longer, nothing was at work for {idle_s:g} s: {names(now)}")
            return
        before = now


def end_others() -> None:
    """Tells also those that have left the command's group, and gives them a moment; what then remains is killed."""
    for pid in others():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    others_after(END_S)


def others(proc: "str | os.PathLike[str]" = "/proc") -> Ticks:
    """Process -> processor time in ticks, its ended children's included, of all but this one and those above it."""
    found, parents = {}, {}
    for entry in os.scandir(proc):
        name = entry.name
        if not name.isdecimal():
            continue
        try:
            with open(f"{proc}/{name}/stat", "rb") as file:
                # The name in parentheses may hold anything, also parentheses.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        parents[int(name)] = int(fields[1])
        if fields[0] not in (b"Z", b"X"):
            found[int(name)] = sum(int(ticks) for ticks in fields[11:15])
    pid = os.getpid()
    while pid:
        found.pop(pid, None)
        pid = parents.get(pid, 0)
    found.pop(1, None)
    return found


def is_busy(before: Ticks, now: Ticks, seconds: float) -> bool:
    """Whether a process has used more than a small share of a core in the meantime."""
    least = max(1.0, BUSY_SHARE * seconds * os.sysconf("SC_CLK_TCK"))
    return any(ticks - before.get(pid, 0) >= least for pid, ticks in now.items())


def has_busy_gpu() -> bool:
    """Whether a GPU of this container is at work, as far as that can be told."""
    import shutil
    import subprocess

    if shutil.which(GPU_QUERY[0]) is None:
        return False
    try:
        told = subprocess.run(GPU_QUERY, capture_output=True, timeout=GPU_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    return any(word.isdigit() and int(word) >= BUSY_GPU_PCT for word in told.split())


def names(ticks: Ticks, proc: "str | os.PathLike[str]" = "/proc") -> str:
    """A few of the processes by name; the names are an agent's."""
    told = []
    for pid in sorted(ticks)[:5]:
        try:
            with open(f"{proc}/{pid}/comm", "rb") as file:
                word = file.read(16).decode("ascii", "replace").strip()
        except OSError:
            continue
        told.append(f"{''.join(c if c.isprintable() else '?' for c in word)} ({pid})")
    return ", ".join(told) + (f" and {len(ticks) - 5} more" if len(ticks) > 5 else "")


def say(words: str) -> None:
    os.write(2, f"[launch] {words}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
