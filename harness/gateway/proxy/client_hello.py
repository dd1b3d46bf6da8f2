"""Reading a TLS ClientHello for the name of the server it asks for (RFC 8446, section 4.1.2; RFC 6066, section 3)."""

from __future__ import annotations

from harness.domain.hosts import host_name
from harness.errors import ConnectRefusal

MAX_HELLO_BYTES = 16 * 2**10
HANDSHAKE, CLIENT_HELLO = 22, 1
SERVER_NAME, ENCRYPTED_CLIENT_HELLO = 0, 0xFE0D
RECORD_HEAD, MESSAGE_HEAD, MAX_RECORD = 5, 4, 2**14
# More of them are no client's; each costs a look at all before it.
MAX_RECORDS = 32
VERSION_BYTES, RANDOM_BYTES = 2, 32
# What a client of TLS reads as an error: fatal, unrecognized_name.
ALERT = bytes([21, 3, 3, 0, 2, 2, 112])


def server_name(data: bytes) -> str | None:
    """The server that the connection which begins with `data` asks for; None where more bytes are needed to tell.

    Raises:
        ConnectRefusal: it is no TLS, or does not say in the open which server it wants.
    """
    message = _message(data)
    return None if message is None else _name_in(message)


def _refusal(what: str) -> ConnectRefusal:
    return ConnectRefusal(403, what)


def _message(data: bytes) -> bytes | None:
    """The ClientHello, put together from its records; None where more are needed."""
    message, place, records = b"", 0, 0
    while len(message) < MESSAGE_HEAD or len(message) < MESSAGE_HEAD + _length(message):
        head = data[place : place + RECORD_HEAD]
        if (head and head[0] != HANDSHAKE) or (len(head) > 1 and head[1] != 3):
            raise _refusal("not TLS: only TLS passes")
        if len(head) < RECORD_HEAD:
            return None
        size = int.from_bytes(head[3:])
        if not 0 < size <= MAX_RECORD:
            raise _refusal("not TLS: a record of no valid length")
        message += data[place + RECORD_HEAD : place + RECORD_HEAD + size]
        place, records = place + RECORD_HEAD + size, records + 1
        if message and message[0] != CLIENT_HELLO:
            raise _refusal("not TLS: it does not begin with a ClientHello")
        if records > MAX_RECORDS or (len(message) >= MESSAGE_HEAD and _length(message) > MAX_HELLO_BYTES):
            raise _refusal("the ClientHello is too long")
        if place > len(data):
            return None
    return message[MESSAGE_HEAD : MESSAGE_HEAD + _length(message)]


def _length(message: bytes) -> int:
    return int.from_bytes(message[1:MESSAGE_HEAD])


def _name_in(message: bytes) -> str:
    try:
        extensions = _extensions(message)
        kinds = [kind for kind, _ in extensions]
        if ENCRYPTED_CLIENT_HELLO in kinds:
            raise _refusal("an encrypted ClientHello hides the server's name")
        if kinds.count(SERVER_NAME) != 1:
            raise _refusal("the ClientHello names no server (SNI)")
        return _only_name(dict(extensions)[SERVER_NAME])
    except ValueError:
        raise _refusal("the ClientHello is malformed") from None


def _extensions(message: bytes) -> list[tuple[int, bytes]]:
    body = _Bytes(message)
    body.take(VERSION_BYTES + RANDOM_BYTES)
    body.vector(1)  # session id
    body.vector(2)  # cipher suites
    body.vector(1)  # compression methods
    found, listed = list[tuple[int, bytes]](), _Bytes(body.vector(2) if body.is_left else b"")
    while listed.is_left:
        found.append((listed.number(2), listed.vector(2)))
    if body.is_left:
        raise ValueError("bytes behind the extensions")
    return found


def _only_name(extension: bytes) -> str:
    whole = _Bytes(extension)
    names = _Bytes(whole.vector(2))
    kind, name = names.number(1), names.vector(2)
    if kind != 0 or names.is_left or whole.is_left:
        raise ValueError("more than one name")
    return host_name(name.decode("ascii"))


class _Bytes:
    """Bytes that are taken from the front; ValueError where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    @property
    def is_left(self) -> bool:
        return self._place < len(self._data)

    def take(self, size: int) -> bytes:
        taken = self._data[self._place : self._place + size]
        if len(taken) < size:
            raise ValueError("cut off")
        self._place += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> bytes:
        """What follows a length of `size` bytes."""
        return self.take(self.number(size))
