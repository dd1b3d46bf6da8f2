"""The name in a ClientHello: real ones of this Python's TLS, and bytes that are none."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConnectRefusal
from harness.gateway.proxy.client_hello import ENCRYPTED_CLIENT_HELLO, MAX_HELLO_BYTES, server_name


def real_hello(name: str | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """What a client of TLS sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def vector(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size) + data


def extension(kind: int, data: bytes) -> bytes:
    return struct.pack(">H", kind) + vector(2, data)


def sni(*names: bytes, kind: int = 0) -> bytes:
    return extension(0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in names)))


def hello(extensions: bytes | None, kind: int = 1, behind: bytes = b"") -> bytes:
    """A handshake message that is a ClientHello."""
    body = b"\x03\x03" + bytes(32) + vector(1, b"") + vector(2, b"\x13\x01") + vector(1, b"\x00")
    body += (b"" if extensions is None else vector(2, extensions)) + behind
    return bytes([kind]) + vector(3, body)


def records(message: bytes, size: int = 2**14) -> bytes:
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + vector(2, piece) for piece in pieces)


def refused(data: bytes) -> str:
    with pytest.raises(ConnectRefusal) as error:
        server_name(data)
    assert error.value.status == 403
    return error.value.what


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_real_hello_tells_its_server(version: ssl.TLSVersion) -> None:
    data = real_hello("files.pythonhosted.org", version)
    assert server_name(data) == "files.pythonhosted.org"
    assert server_name(data + b"early data") == "files.pythonhosted.org"


def test_until_it_is_whole_nothing_is_told() -> None:
    data = real_hello("pypi.org")
    assert {server_name(data[:size]) for size in range(len(data))} == {None}


@pytest.mark.parametrize("size", [100, 300, 1000])
def test_one_in_several_records_is_put_together(size: int) -> None:
    data = records(real_hello("pypi.org")[5:], size)
    assert server_name(data) == "pypi.org"
    assert server_name(data[:-1]) is None


def test_without_a_name_it_is_refused() -> None:
    assert "names no server" in refused(real_hello(None))
    assert "names no server" in refused(records(hello(None)))
    assert "names no server" in refused(records(hello(b"")))


@pytest.mark.parametrize(
    ("extensions", "why"),
    [
        (sni(b"a.org") + sni(b"b.org"), "names no server"),
        (sni(b"a.org", b"b.org"), "malformed"),
        (sni(b"a.org", kind=1), "malformed"),
        (sni(b"a.org") + extension(ENCRYPTED_CLIENT_HELLO, b"x"), "encrypted"),
        (sni(b"127.0.0.1"), "malformed"),
        (sni(b"a.org\x00.b.org"), "malformed"),
        (sni("bücher.de".encode()), "malformed"),
        (sni(b""), "malformed"),
        (extension(0, b""), "malformed"),
        (extension(0, vector(2, b"\x00" + vector(2, b"a.org")) + b"x"), "malformed"),
        (sni(b"a.org")[:-1], "malformed"),
    ],
)
def test_more_than_one_name_or_a_hidden_one_is_refused(extensions: bytes, why: str) -> None:
    assert why in refused(records(hello(extensions)))


def test_the_name_has_its_one_spelling() -> None:
    assert server_name(records(hello(sni(b"PyPI.ORG.")))) == "pypi.org"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00",
        b"\x80\x2e\x01\x03\x01",  # SSL 2
        b"\x16\x02\x00\x00\x05",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        records(hello(sni(b"a.org"), kind=2)),
        records(hello(sni(b"a.org"), behind=b"x")),
    ],
)
def test_what_is_no_hello_is_refused_as_soon_as_that_shows(data: bytes) -> None:
    assert refused(data)


def test_one_that_never_ends_is_refused() -> None:
    assert "too long" in refused(records(b"\x01" + (MAX_HELLO_BYTES + 1).to_bytes(3) + bytes(100)))
    assert "too long" in refused(records(hello(sni(b"a.org")), 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(data: bytes) -> None:
    for start in (b"", b"\x16\x03\x01", records(hello(sni(b"a.org")))[:40]):
        try:
            assert server_name(start + data) is None
        except ConnectRefusal:
            continue


def changed(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            yield data[:place] + bytes([value]) + data[place + 1 :]


def test_no_change_of_one_byte_breaks_the_reader() -> None:
    for data in changed(real_hello("pypi.org")):
        try:
            name = server_name(data)
        except ConnectRefusal:
            continue
        assert name is None or len(name) >= 1
