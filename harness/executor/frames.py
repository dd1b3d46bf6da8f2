"""What a scorer and its executor say to each other: framed messages of many candidates on one stream.

The payloads of PROGRAM, CALL and REPLY are JSON, read by the two ends alone: the service in between only counts bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

HEADER = struct.Struct(">cII")
# A program, or the arguments of one call; and what may come back from one.
MAX_REQUEST_BYTES = 4 * 2**20
MAX_REPLY_BYTES = 2**20
VERSION = b"executor 1"
# Between the service and one candidate's process: the length alone.
LENGTH = struct.Struct(">I")


class Kind(Enum):
    """What a frame is; its `candidate` is a number that the scorer chooses."""

    HELLO = b"H"  # both ways, first of all; `candidate` is 0, the payload VERSION
    PROGRAM = b"P"  # scorer: start a process for this candidate and load its source
    CALL = b"C"  # scorer: call one of its functions
    CLOSE = b"X"  # scorer: the candidate is no longer needed
    REPLY = b"R"  # executor: the process's answer to the PROGRAM or CALL before
    ENDED = b"E"  # executor: the process is gone or was ended, the payload says why
    REFUSED = b"F"  # executor: no process could be started; says nothing about the candidate


class BadFrame(ValueError):
    """The other side does not speak this protocol."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: Kind
    candidate: int
    payload: bytes = b""

    def pack(self) -> bytes:
        """The frame as bytes on the stream."""
        return HEADER.pack(self.kind.value, self.candidate, len(self.payload)) + self.payload


class FrameBuffer:
    """Puts a stream's bytes together to frames."""

    def __init__(self, max_payload: int) -> None:
        self._max_payload = max_payload
        self._content = bytearray()

    def feed(self, content: bytes) -> list[Frame]:
        """The frames that `content` completes.

        Raises:
            BadFrame: an unknown kind, or a frame that is too large.
        """
        self._content += content
        frames = []
        while len(self._content) >= HEADER.size:
            kind, candidate, size = HEADER.unpack_from(self._content)
            if size > self._max_payload:
                raise BadFrame(f"a frame of {size} bytes")
            if len(self._content) < HEADER.size + size:
                break
            payload = bytes(self._content[HEADER.size : HEADER.size + size])
            del self._content[: HEADER.size + size]
            frames.append(Frame(_kind(kind), candidate, payload))
        return frames


def _kind(value: bytes) -> Kind:
    try:
        return Kind(value)
    except ValueError as error:
        raise BadFrame(f"a frame of the unknown kind {value!r}") from error
