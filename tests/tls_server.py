"""A real TLS server on loopback, with a certificate of its own for `localhost`: it sends back what it is sent."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PIECE = b"x" * 2**16


@dataclass
class TlsServer:
    """`GET <n>\\n` is answered by so many bytes; anything else comes back as it is."""

    port: int
    certificate: Path
    open_connections: set[int] = field(default_factory=set)

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))


@contextmanager
def tls_server(folder: Path) -> Iterator[TlsServer]:
    """Answers until the block ends."""
    key, certificate = folder / "tls.key", folder / "tls.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = TlsServer(int(listener.getsockname()[1]), certificate)
        threading.Thread(target=_accept, args=(listener, context, server), daemon=True).start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, server: TlsServer) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_answer, args=(client, context, server), daemon=True).start()


def _answer(client: socket.socket, context: ssl.SSLContext, server: TlsServer) -> None:
    number = client.fileno()
    server.open_connections.add(number)
    try:
        with client, suppress(OSError), context.wrap_socket(client, server_side=True) as tls:
            while data := tls.recv(2**16):
                if data.startswith(b"GET "):
                    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    continue
                if not data.startswith(b"SEND "):
                    tls.sendall(data)
                    continue
                left = int(data.split()[1])
                while left > 0:
                    left -= tls.send(PIECE[:left])
    finally:
        server.open_connections.discard(number)
