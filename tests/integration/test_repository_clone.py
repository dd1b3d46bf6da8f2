"""Cloning a repository over https, from a server of the test's own: shallow, without links, modules and hooks."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.authoring.repository import digest_of, fetched
from harness.errors import PrerequisiteError

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("openssl")), reason="git and openssl are not installed"
)
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *words]
    subprocess.run(command, cwd=folder, env={**os.environ, **AUTHOR}, check=True, capture_output=True)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """URL of the server, and the folder whose repositories it serves."""
    root = tmp_path / "served"
    root.mkdir()
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )

    class Backend(BaseHTTPRequestHandler):
        # Replies that end with their connection are an error to a TLS client.
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True).stdout
            head, _, content = reply.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", root
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_a_repository_is_cloned_and_nothing_of_it_acts(
    served: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, root = served
    work, module = tmp_path / "work", root / "module"
    for folder in (work, module):
        folder.mkdir()
        git(folder, "init", "--quiet")
    (module / "README.md").write_text("the module's own words")
    (work / "README.md").write_text("# Riddles\n")
    (work / "link.md").symlink_to("/etc/passwd")
    (work / ".gitattributes").write_text("*.md filter=evil\n")
    git(module, "add", ".")
    git(module, "commit", "--quiet", "-m", "one")
    git(work, "submodule", "--quiet", "add", str(module), "module")
    for number in range(3):
        (work / "count.txt").write_text(str(number))
        git(work, "add", ".")
        git(work, "commit", "--quiet", "-m", f"{number}")
    git(root, "clone", "--quiet", "--bare", str(work), "riddles.git")
    # A configuration of the user's that would run a program and send the clone elsewhere.
    mark = tmp_path / "it-ran"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text(
        f'[filter "evil"]\n\tsmudge = touch {mark}; cat\n[url "file:///"]\n\tinsteadOf = https://127.0.0.1\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "cert.pem"))
    (tmp_path / "scratch").mkdir()
    clone = fetched(f"{url}/riddles.git", tmp_path / "scratch")
    assert (clone / "count.txt").read_text() == "2"
    assert not (clone / "link.md").is_symlink()
    assert not list((clone / "module").iterdir())
    assert not mark.exists()
    commits = subprocess.run(["git", "log", "--oneline"], cwd=clone, capture_output=True, text=True, check=True).stdout
    assert len(commits.splitlines()) == 1
    digest = digest_of(url, clone)
    assert "# Riddles" in digest.text
    assert "root:" not in digest.text
    assert "the module's own words" not in digest.text


def test_a_server_that_nobody_vouches_for_is_refused(served: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="could not clone"):
        fetched(f"{served[0]}/riddles.git", tmp_path)
