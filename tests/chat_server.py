"""A small OpenAI-compatible chat endpoint on loopback: says what it was told to say, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ChatServer:
    """`replies` are used up one by one: a text, or a status with a raw body."""

    replies: list[str | tuple[int, bytes]]
    requests: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    base_url: str = ""

    def next(self) -> tuple[int, bytes]:
        reply = self.replies.pop(0) if self.replies else (500, b"nothing left to say")
        if isinstance(reply, tuple):
            return reply
        message = {"choices": [{"message": {"role": "assistant", "content": reply}}]}
        return 200, json.dumps({**message, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}).encode()


@contextmanager
def chat_server(*replies: str | tuple[int, bytes]) -> Iterator[ChatServer]:
    state = ChatServer(list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append({"path": self.path, **json.loads(body)})
            state.authorizations.append(self.headers.get("Authorization"))
            status, content = state.next()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", content.decode())
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
