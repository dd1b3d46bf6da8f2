"""One candidate's process as the service sees it: started, spoken to, measured, ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from harness.executor.candidate import Limits, become
from harness.executor.frames import LENGTH, MAX_REPLY_BYTES
from harness.executor.system_calls import Filter

CHUNK = 2**16
# Of every call: the service itself may come late to an answer on a busy machine.
GRACE_S = 0.25
# How much of the wall clock a candidate may take where the kernel does not tell running from waiting for a processor.
WALL_FACTOR = 20
# The kernel counts a process's time in two ways, which are some way apart on a busy machine.
SHARE_OF_LIMIT = 0.5


class Misbehaviour(Exception):
    """What a candidate did is its end; the words are for the record."""


class CandidateProcess:
    """A forked process in a session of its own, and the one reply that it owes at most."""

    def __init__(self, limits: Limits, system_calls: Filter) -> None:
        """Raises: OSError: there is no room for another process."""
        self._limits = limits
        self.channel, theirs = socket.socketpair()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                become(theirs.fileno(), limits, system_calls)
        except OSError:
            self.channel.close()
            raise
        finally:
            theirs.close()
        self.channel.setblocking(False)
        self._unsent = bytearray()
        self._received = bytearray()
        self._idle_s = 0.0
        self._asked_at: float | None = None
        self._busy_then = 0.0

    @property
    def has_unsent(self) -> bool:
        """Whether a request waits for room in the channel."""
        return bool(self._unsent)

    def ask(self, payload: bytes) -> None:
        """Sends a request; the process owes one reply from now on.

        Raises:
            Misbehaviour: it owes one already (the other side of the service should not have asked).
        """
        if self._asked_at is not None:
            raise Misbehaviour("asked before it had answered")
        self._asked_at, self._busy_then = time.monotonic(), self._busy_s() or 0.0
        self._unsent += LENGTH.pack(len(payload)) + payload
        self.send()

    def send(self) -> None:
        """Sends on what has been waiting for room."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent:
                del self._unsent[: self.channel.send(self._unsent)]

    def receive(self) -> bytes | None:
        """The reply, when it is complete.

        Raises:
            Misbehaviour: it said what it was not asked, too much, or went silent for good.
        """
        try:
            content = self.channel.recv(CHUNK)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            content = b""
        if not content:
            raise Misbehaviour("")
        if self._asked_at is None:
            raise Misbehaviour("it spoke without being asked")
        self._received += content
        if len(self._received) < LENGTH.size:
            return None
        (size,) = LENGTH.unpack_from(self._received)
        if size > MAX_REPLY_BYTES:
            raise Misbehaviour(f"its reply is larger than {MAX_REPLY_BYTES} bytes")
        if len(self._received) > LENGTH.size + size:
            raise Misbehaviour("it said more than one reply")
        if len(self._received) < LENGTH.size + size:
            return None
        reply = bytes(self._received[LENGTH.size :])
        self._received.clear()
        self._idle_s += self._waited_s()
        self._asked_at = None
        return reply

    def check_time(self) -> None:
        """Raises: Misbehaviour: it has neither computed nor answered for too long."""
        if self._asked_at is not None and self._idle_s + self._waited_s() > self._limits.idle_s:
            raise Misbehaviour(f"it waited longer than {self._limits.idle_s:g} s")

    def kill(self) -> None:
        """Ends it; it has to be reaped afterwards."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.channel.close()

    def reap(self, *, is_waiting: bool) -> str:
        """How it ended, of a killed one; empty if it is still about to (a large one takes a while to go)."""
        pid, status, usage = os.wait4(self.pid, 0 if is_waiting else os.WNOHANG)
        if pid == 0:
            return ""
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL and usage.ru_utime + usage.ru_stime >= SHARE_OF_LIMIT * self._limits.cpu_s:
            return f"its {self._limits.cpu_s} s of processor time were up"
        return f"its process ended (status {code})"

    def _waited_s(self) -> float:
        """Time since the request in which it neither ran nor waited for a processor."""
        if self._asked_at is None:
            return 0.0
        wall_s, busy_s = time.monotonic() - self._asked_at, self._busy_s()
        if busy_s is None:
            return wall_s / WALL_FACTOR
        return max(0.0, wall_s - (busy_s - self._busy_then) - GRACE_S)

    def _busy_s(self) -> float | None:
        """Seconds that it ran or stood in line for a processor; None where the kernel does not say."""
        try:
            on_processor, in_line, _ = Path(f"/proc/{self.pid}/schedstat").read_text().split()
        except (OSError, ValueError):
            return None
        return (int(on_processor) + int(in_line)) / 1e9
