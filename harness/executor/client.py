"""The scorer's half: a session with the executor, and candidates whose functions are called as if they were here."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from harness.errors import EvaluationFailed
from harness.executor.frames import MAX_REPLY_BYTES, MAX_REQUEST_BYTES, VERSION, BadFrame, Frame, FrameBuffer, Kind
from harness.executor.literals import NotLiteral, TooLarge, decode, dumps

# The executor starts anew after each session: a second or so, more where sessions are short (decision 0021).
PATIENCE_S = 90.0
RETRY_S = 0.1
HELLO_TIMEOUT_S = 10.0
# Other candidates may leave no room for a process, until a limit of theirs ends them.
STARTS, START_PAUSE_S = 10, 1.0
CHUNK = 2**18
MAX_WORDS = 500


class CandidateFailed(BaseException):
    """The candidate's doing: it raised, ended, hung, or answered with what is no literal.

    Not an `Exception`: no `except Exception` of a check may take it for something else.
    """


class ExecutorGone(EvaluationFailed):
    """The executor is not there, or broke off; says nothing about any candidate."""


class _Refused(ExecutorGone):
    """No room for another process just now."""


class Session:
    """One connection to one executor; every candidate has a process of its own there. For use by several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._decoding = threading.Lock()
        self._waiting: dict[int, SimpleQueue[Frame | None]] = {}
        self._is_gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    def load(self, source: str) -> Candidate:
        """A candidate that has loaded its program.

        Raises:
            CandidateFailed: the program raised, ended or hung.
            ExecutorGone: see there.
        """
        for _ in range(STARTS - 1):
            with suppress(_Refused):
                return self._loaded(source)
            time.sleep(START_PAUSE_S)
        return self._loaded(source)

    def _loaded(self, source: str) -> Candidate:
        number = next(self._numbers)
        self._waiting[number] = SimpleQueue()
        candidate = Candidate(self, number)
        try:
            candidate.ask(Kind.PROGRAM, {"source": source})
        except BaseException:
            candidate.close()
            raise
        return candidate

    def exchange(self, frame: Frame) -> bytes:
        """The reply to one request, and nothing checked of it but its size."""
        if len(frame.payload) > MAX_REQUEST_BYTES:
            raise CandidateFailed(f"a program or its arguments have more than {MAX_REQUEST_BYTES} bytes")
        self.send(frame)
        reply = self._waiting[frame.candidate].get()
        if reply is None:
            raise ExecutorGone("the executor broke off", "See the log of the executor container.")
        words = reply.payload.decode(errors="replace")[:MAX_WORDS]
        if reply.kind is Kind.REFUSED:
            raise _Refused(f"the executor could not start a process: {words}")
        if reply.kind is Kind.ENDED:
            raise CandidateFailed(words)
        return reply.payload

    def value(self, content: bytes, token: str) -> Any:
        """What a reply says the call returned; one at a time, so that large replies do not add up."""
        with self._decoding:
            return _value(content, token)

    def send(self, frame: Frame) -> None:
        """Sends without waiting for a reply."""
        if self._is_gone:
            raise ExecutorGone("the executor broke off", "See the log of the executor container.")
        try:
            with self._sending:
                self._connection.sendall(frame.pack())
        except OSError as error:
            raise ExecutorGone(f"the executor broke off: {error}") from error

    def forget(self, number: int) -> None:
        """The candidate of this number is over; its process goes."""
        with suppress(ExecutorGone):
            self.send(Frame(Kind.CLOSE, number))
        self._waiting.pop(number, None)

    def _listen(self) -> None:
        buffer = FrameBuffer(MAX_REPLY_BYTES)
        with suppress(OSError, BadFrame):
            while content := self._connection.recv(CHUNK):
                for frame in buffer.feed(content):
                    if frame.kind not in (Kind.REPLY, Kind.ENDED, Kind.REFUSED):
                        raise BadFrame(f"a frame of kind {frame.kind.name}")
                    # None: it was closed meanwhile.
                    if (queue := self._waiting.get(frame.candidate)) is not None:
                        queue.put(frame)
        self._is_gone = True
        for queue in list(self._waiting.values()):
            queue.put(None)


class Candidate:
    """One candidate's program, loaded. `has_failed` once any call failed: a check cannot overlook that."""

    def __init__(self, session: Session, number: int) -> None:
        self._session = session
        self._number = number
        self.calls = 0
        self.has_failed = False

    def function(self, name: str) -> Callable[..., Any]:
        """A stand-in for the program's function of that name: takes literals, returns what came back, a literal.

        Raises (when called):
            CandidateFailed: it raised, ended, hung, is not there, or returned what is no literal.
            NotLiteral: an argument is none; that is the check's mistake. One that is too large is, before any value
                was returned; afterwards it may have been made of that.
        """

        def call(*args: object, **kwargs: object) -> Any:
            try:
                arguments = {"args": json.loads(dumps(list(args))), "kwargs": json.loads(dumps(kwargs))}
            except TooLarge as error:
                if self.calls == 0:
                    raise
                self.has_failed = True
                raise CandidateFailed(f"what it returned became an argument of {error}") from error
            value = self.ask(Kind.CALL, {"name": name, **arguments})
            self.calls += 1
            return value

        return call

    def ask(self, kind: Kind, message: dict[str, Any]) -> Any:
        """One request under a token of its own, which the reply must carry."""
        if self.has_failed:
            raise CandidateFailed("it had failed before")
        token = secrets.token_hex(16)
        payload = json.dumps({"token": token, **message}).encode()
        try:
            return self._session.value(self._session.exchange(Frame(kind, self._number, payload)), token)
        except CandidateFailed:
            self.has_failed = True
            raise

    def close(self) -> None:
        """Ends its process."""
        self._session.forget(self._number)


def _value(content: bytes, token: str) -> Any:
    proof = b'{"token":"%s",' % token.encode()
    if not content.startswith(proof):
        raise CandidateFailed("its reply does not carry the token of the call")
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CandidateFailed("its reply is no JSON") from error
    if not isinstance(reply, dict) or reply.keys() != {"token", "value"}:
        words = reply.get("error") if isinstance(reply, dict) else None
        raise CandidateFailed(words[:MAX_WORDS] if isinstance(words, str) else "its reply is malformed")
    try:
        return decode(reply["value"])
    except NotLiteral as error:
        raise CandidateFailed(f"it did not return a literal: {error}") from error


@contextmanager
def open_session(path: Path, patience_s: float = PATIENCE_S) -> Iterator[Session]:
    """A session with the executor on the socket at `path`, which starts anew afterwards.

    Raises:
        ExecutorGone: none is there within `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    while (connection := _greeted(path)) is None:
        if time.monotonic() > deadline:
            raise ExecutorGone(
                f"no executor answered on {path} within {patience_s:g} s",
                "Benchmarks of eval_mode `code` need one beside the scorer: see the log of the executor container.",
            )
        time.sleep(RETRY_S)
    with connection:
        yield Session(connection)
        # The listening thread sees the end.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def answers(path: Path) -> bool:
    """Whether an executor waits there for a session; it goes on waiting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(HELLO_TIMEOUT_S)
        try:
            _connect(connection, path)
        except OSError:
            return False
    return True


def _greeted(path: Path) -> socket.socket | None:
    """A connection on which hello was said; None where nobody is there (yet)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(HELLO_TIMEOUT_S)
        _connect(connection, path)
        hello = Frame(Kind.HELLO, 0, VERSION)
        connection.sendall(hello.pack())
        if FrameBuffer(MAX_REPLY_BYTES).feed(connection.recv(len(hello.pack()))) == [hello]:
            connection.settimeout(None)
            return connection
    except (OSError, BadFrame):
        pass
    connection.close()
    return None


def _connect(connection: socket.socket, path: Path) -> None:
    # The folder belongs to the executor: what lies there must be a socket itself, not a link to another.
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        if not stat.S_ISSOCK(os.fstat(place).st_mode):
            raise FileNotFoundError(path)
        connection.connect(f"/proc/self/fd/{place}")
    finally:
        os.close(place)
