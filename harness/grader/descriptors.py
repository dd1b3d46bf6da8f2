"""Where the harness hands over open descriptors of workspaces: SCM_RIGHTS on a unix socket, served by one thread."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Callable
from typing import Any

from loguru import logger

from harness.errors import HarnessError, RequestError
from harness.grader.registry import ActiveRun
from harness.home import Home
from harness.unix_socket import listen

SOCKET_MODE = 0o600
MAX_MESSAGE_BYTES = 4096
MAX_DESCRIPTORS = 4
TIMEOUT_S = 5.0


class DescriptorListener:
    """Takes descriptors in; `on_output` is called when a run's workspace is at hand (again)."""

    def __init__(self, home: Home, find: Callable[[str], ActiveRun], on_output: Callable[[ActiveRun], object]) -> None:
        self._path = home.descriptor_socket
        self._find = find
        self._on_output = on_output
        self._server = listen(self._path, SOCKET_MODE)
        self._is_stopping = False

    def start(self) -> None:
        """Serves from a thread of its own until `stop`."""
        threading.Thread(target=self._serve, name="descriptors", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread; the socket is gone."""
        self._is_stopping = True
        # `close` alone does not wake a thread that is inside `accept`.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while not self._is_stopping:
            try:
                connection, _ = self._server.accept()
            except OSError as error:
                if not self._is_stopping:
                    logger.error("the descriptor listener cannot accept: {}", error)
                return
            with connection:
                try:
                    connection.settimeout(TIMEOUT_S)
                    self._answer(connection)
                except OSError as error:
                    logger.warning("a descriptor hand-over broke off: {}", error)

    def _answer(self, connection: socket.socket) -> None:
        try:
            run = self._take(connection)
        except HarnessError as error:
            connection.sendall(_line({"error": error.what}))
            return
        connection.sendall(_line({"ok": True}))
        try:
            self._on_output(run)
        except HarnessError as error:
            logger.error("{} was not taken up: {}", run.run_id, error)

    def _take(self, connection: socket.socket) -> ActiveRun:
        message, descriptors = _received(connection)
        try:
            run = self._find(_run_id(message))
            if len(descriptors) != 1 or not stat.S_ISDIR(os.fstat(descriptors[0]).st_mode):
                raise RequestError("a message carries exactly one descriptor, of a directory")
            if run.closed.is_set():
                raise RequestError(f"run {run.run_id} is closed")
            run.output.replace(descriptors.pop())
            return run
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """One line and the descriptors that came with it, close-on-exec."""
    message, descriptors = b"", []
    while not message.endswith(b"\n"):
        data, ancillary, flags, _ = connection.recvmsg(
            MAX_MESSAGE_BYTES, socket.CMSG_SPACE(4 * MAX_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(payload) - len(payload) % 4
                descriptors += list(memoryview(payload[:whole]).cast("i"))
        message += data
        if not data or len(message) > MAX_MESSAGE_BYTES or flags & socket.MSG_CTRUNC:
            for descriptor in descriptors:
                os.close(descriptor)
            raise RequestError("a message is one line of JSON with one descriptor")
    return message, descriptors


def _run_id(message: bytes) -> str:
    try:
        value: Any = json.loads(message)
    except ValueError as error:
        raise RequestError("the message is no JSON") from error
    run_id = value.get("run_id") if isinstance(value, dict) else None
    if not isinstance(run_id, str):
        raise RequestError("the message names no run_id")
    return run_id


def _line(reply: dict[str, Any]) -> bytes:
    return json.dumps(reply).encode() + b"\n"
