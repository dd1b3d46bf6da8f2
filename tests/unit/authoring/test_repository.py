"""The digest of a repository: bounded, without secrets, links and binaries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.authoring.repository import MAX_TOTAL, digest_of, fetched
from harness.errors import PrerequisiteError, UsageError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("# A set of riddles\n")
    (folder / "LICENSE").write_text("MIT License\n")
    (folder / "score.py").write_text("def score(): ...\n")
    (folder / "data" / "riddles.jsonl").write_text('{"riddle": "first"}\n' * 5_000)
    return folder


def test_texts_come_whole_and_data_in_samples(repository: Path) -> None:
    digest = digest_of("here", repository)
    assert (digest.files, digest.quoted) == (4, 4)
    for text in ("# A set of riddles", "MIT License", "def score()", "===== data/riddles.jsonl =====", "100000 bytes"):
        assert text in digest.text
    assert digest.text.count('"first"') < 150
    assert digest.text.index("# A set of riddles") < digest.text.index("def score()")


def test_secrets_links_binaries_and_huge_files_are_left_out(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("outside of it")
    (repository / "link.md").symlink_to(tmp_path / "outside.md")
    (repository / "up").symlink_to(tmp_path)
    (repository / ".env").write_text("KEY=sk-1\n")
    (repository / "server.pem").write_text("PRIVATE\n")
    (repository / "my_credentials.json").write_text('{"k": "sk-2"}')
    (repository / "blob.py").write_bytes(b"\0\1\2 hidden-blob")
    (repository / "model.bin").write_bytes(b"weights")
    (repository / "huge.py").write_text("# big\n" * 10**6)
    (repository / ".git").mkdir()
    (repository / ".git" / "config").write_text("[remote] secret-url")
    os.mkfifo(repository / "pipe.md")
    text = digest_of("here", repository).text
    for word in ("outside of it", "sk-1", "PRIVATE", "sk-2", "hidden-blob", "weights", "# big", "secret-url"):
        assert word not in text
    assert "model.bin" in text


def test_the_digest_is_bounded(repository: Path) -> None:
    for number in range(400):
        (repository / f"module_{number}.py").write_text(f"# {number}\n" + "x = 1\n" * 2_000)
    digest = digest_of("here", repository)
    assert len(digest.text) < MAX_TOTAL + 60_000
    assert "more files" in digest.text


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\0")
    with pytest.raises(UsageError, match="no text"):
        digest_of("here", tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "git://example.org/x",
        "ssh://git@example.org/x",
        "git@example.org:x",
        "file:///etc",
        "ext::sh -c touch% /tmp/x",
        "http://example.org/x",
        "--upload-pack=touch /tmp/x",
        "https://user:word@example.org/x",
        "https://",
        "/no/such/folder",
    ],
)
def test_only_folders_and_https_are_sources(source: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a folder nor an https URL"):
        fetched(source, tmp_path)


def test_a_folder_is_taken_where_it_is(repository: Path, tmp_path: Path) -> None:
    assert fetched(str(repository), tmp_path) == repository


def test_a_clone_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="could not clone"):
        fetched("https://127.0.0.1:9/x", tmp_path)
