"""The executor service: one session with one scorer, then the end of the process, so that the next one starts clean.

Single-threaded, so that it can fork at any moment. What a candidate sends is counted and passed on, never read here.
"""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from pathlib import Path

from harness.executor.candidate import Limits
from harness.executor.frames import MAX_REQUEST_BYTES, VERSION, BadFrame, Frame, FrameBuffer, Kind
from harness.executor.process import CandidateProcess, Misbehaviour
from harness.executor.system_calls import Filter
from harness.unix_socket import listen

SOCKET_MODE = 0o666
LOOK_EVERY_S = 0.1
MAX_CANDIDATES = 128
CHUNK = 2**18


def session_on(path: Path) -> tuple[socket.socket, FrameBuffer]:
    """The connection that says hello first; whoever only looks whether somebody is there is not meant.

    Nobody else can connect afterwards.
    """
    server = listen(path, SOCKET_MODE)
    with server:
        while True:
            connection, _ = server.accept()
            buffer = FrameBuffer(MAX_REQUEST_BYTES)
            if _says_hello(connection, buffer):
                path.unlink(missing_ok=True)
                return connection, buffer
            connection.close()


def _says_hello(connection: socket.socket, buffer: FrameBuffer) -> bool:
    connection.settimeout(10)
    with suppress(OSError, BadFrame):
        hello = Frame(Kind.HELLO, 0, VERSION)
        received = connection.recv(len(hello.pack()))
        if buffer.feed(received) == [hello]:
            connection.sendall(hello.pack())
            return True
    return False


class Session:
    """Serves one scorer until it hangs up."""

    def __init__(self, connection: socket.socket, buffer: FrameBuffer, limits: Limits, system_calls: Filter) -> None:
        self._connection = connection
        self._buffer = buffer
        self._limits = limits
        self._system_calls = system_calls
        self._candidates: dict[int, CandidateProcess] = {}
        self._dying: list[CandidateProcess] = []
        self._unsent = bytearray()
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Returns when the scorer is gone, with no candidate left.

        Raises:
            BadFrame: the scorer does not speak the protocol.
        """
        self._connection.setblocking(False)
        self._selector.register(self._connection, selectors.EVENT_READ)
        try:
            while self._attend():
                self._look_at_clocks()
        finally:
            for number in list(self._candidates):
                self._end(number)
            for candidate in self._dying:
                candidate.reap(is_waiting=True)
            self._connection.close()

    def _attend(self) -> bool:
        for key, events in self._selector.select(LOOK_EVERY_S):
            if key.fileobj is self._connection:
                if events & selectors.EVENT_READ and not self._hear_scorer():
                    return False
            elif key.data in self._candidates:
                self._hear_candidate(key.data, events)
        return self._send()

    def _hear_scorer(self) -> bool:
        try:
            content = self._connection.recv(CHUNK)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        for frame in self._buffer.feed(content):
            self._obey(frame)
        return bool(content)

    def _obey(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.PROGRAM if frame.candidate not in self._candidates:
                self._start(frame)
            case Kind.CALL:
                # One that has ended was reported; the call may have crossed with that.
                if frame.candidate in self._candidates:
                    self._ask(frame)
            case Kind.CLOSE:
                self._end(frame.candidate)
            case _:
                raise BadFrame(f"{frame.kind.name} of candidate {frame.candidate} at this point")

    def _start(self, frame: Frame) -> None:
        try:
            if len(self._candidates) >= MAX_CANDIDATES:
                raise OSError(f"{MAX_CANDIDATES} candidates run already")
            candidate = CandidateProcess(self._limits, self._system_calls)
        except OSError as error:
            self._say(Kind.REFUSED, frame.candidate, str(error))
            return
        self._candidates[frame.candidate] = candidate
        self._selector.register(candidate.channel, selectors.EVENT_READ, frame.candidate)
        self._ask(frame)

    def _ask(self, frame: Frame) -> None:
        try:
            self._candidates[frame.candidate].ask(frame.payload)
        except Misbehaviour as why:
            raise BadFrame(f"candidate {frame.candidate} {why}") from why
        self._watch(frame.candidate)

    def _hear_candidate(self, number: int, events: int) -> None:
        candidate = self._candidates[number]
        if events & selectors.EVENT_WRITE:
            candidate.send()
            self._watch(number)
        if events & selectors.EVENT_READ:
            try:
                reply = candidate.receive()
            except Misbehaviour as why:
                self._give_up(number, str(why))
            else:
                if reply is not None:
                    self._unsent += Frame(Kind.REPLY, number, reply).pack()

    def _watch(self, number: int) -> None:
        candidate = self._candidates[number]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if candidate.has_unsent else 0)
        self._selector.modify(candidate.channel, wanted, number)

    def _look_at_clocks(self) -> None:
        for number, candidate in list(self._candidates.items()):
            try:
                candidate.check_time()
            except Misbehaviour as why:
                self._give_up(number, str(why))
        self._dying = [candidate for candidate in self._dying if not candidate.reap(is_waiting=False)]

    def _give_up(self, number: int, why: str) -> None:
        candidate = self._end(number)
        if not why and candidate is not None:
            self._dying.remove(candidate)
            why = candidate.reap(is_waiting=True)
        self._say(Kind.ENDED, number, why)

    def _end(self, number: int) -> CandidateProcess | None:
        candidate = self._candidates.pop(number, None)
        if candidate is not None:
            self._selector.unregister(candidate.channel)
            candidate.kill()
            self._dying.append(candidate)
        return candidate

    def _say(self, kind: Kind, number: int, words: str) -> None:
        self._unsent += Frame(kind, number, words.encode()).pack()

    def _send(self) -> bool:
        """Sends what there is room for; False where the scorer is gone."""
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            return False
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._connection, wanted)
        return True
