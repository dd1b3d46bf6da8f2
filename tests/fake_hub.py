"""A model hub on loopback: what its client library asks for, with ranges, and files that break off or are wrong."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

COMMIT = "c0ffee" + "0" * 34
REPO = "org/tiny"


@dataclass
class Hub:
    """One repository, `folder`; what was asked for is in `asked`."""

    folder: Path
    asked: list[tuple[str, str]] = field(default_factory=list)
    # Name of a file -> after how many of its bytes each connection breaks off, once each.
    breaks: dict[str, list[int]] = field(default_factory=dict)
    # Names of files that are sent with another first byte.
    wrong: set[str] = field(default_factory=set)
    url: str = ""

    def siblings(self) -> list[dict[str, object]]:
        return [self._sibling(path) for path in sorted(self.folder.iterdir())]

    def _sibling(self, path: Path) -> dict[str, object]:
        entry: dict[str, object] = {"rfilename": path.name, "size": path.stat().st_size, "blobId": "0" * 40}
        if path.suffix == ".safetensors":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entry["lfs"] = {"sha256": digest, "size": path.stat().st_size, "pointerSize": 130}
        return entry

    def content(self, name: str) -> bytes:
        data = (self.folder / name).read_bytes()
        return bytes([data[0] ^ 1]) + data[1:] if name in self.wrong else data

    def gets(self, name: str) -> list[str]:
        """The ranges that were asked of a file; empty where all of it was."""
        return [detail for call, detail in self.asked if call == f"GET {name}"]


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """`hub` answers at `hub.url` while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            path = urlsplit(self.path).path
            if found := re.fullmatch(rf"/{REPO}/resolve/{COMMIT}/([^/]+)", path):
                self._file(found[1], with_body=with_body)
            elif re.fullmatch(rf"/api/models/{REPO}/tree/{COMMIT}", path):
                self._json([_in_tree(entry) for entry in hub.siblings()])
            elif re.fullmatch(rf"/api/models/{REPO}(/revision/.+)?", path):
                self._json({"id": REPO, "modelId": REPO, "sha": COMMIT, "siblings": hub.siblings()})
            else:
                self._json({"error": "Repository not found"}, status=404)

        def _json(self, value: object, status: int = 200) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _file(self, name: str, *, with_body: bool) -> None:
            data, span = hub.content(name), self.headers.get("Range", "")
            start = int(span.removeprefix("bytes=").split("-")[0]) if span else 0
            if with_body:
                hub.asked.append((f"GET {name}", span))
            self.send_response(206 if span else 200)
            self.send_header("ETag", f'"{hashlib.sha256((hub.folder / name).read_bytes()).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(data) - start))
            if span:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.end_headers()
            if not with_body:
                return
            cut = hub.breaks[name].pop(0) if hub.breaks.get(name) else None
            self.wfile.write(data[start:cut])
            if cut is not None:
                self.wfile.flush()
                self.connection.close()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _in_tree(entry: dict[str, object]) -> dict[str, object]:
    lfs = entry.get("lfs")
    told = {"type": "file", "path": entry["rfilename"], "size": entry["size"], "oid": "0" * 40}
    return {**told, "lfs": {**lfs, "oid": lfs["sha256"]}} if isinstance(lfs, dict) else told
