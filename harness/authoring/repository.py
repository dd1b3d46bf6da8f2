"""A bounded digest of a repository for an LLM: its tree, its texts, the heads of its data; nothing of it is run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from harness.domain.base import Frozen
from harness.domain.text import shown
from harness.errors import PrerequisiteError, UsageError
from harness.regular_file import opened
from harness.sandbox.process import run_process

CLONE_TIMEOUT_S = 180.0
# Blocks of 512 bytes that git may write into one file: 512 MB.
CLONE_FILE_BLOCKS = 2**20
GIT_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
)
MAX_ENTRIES, MAX_TREE_LINES = 20_000, 300
MAX_TEXT, MAX_SAMPLE, MAX_TOTAL = 24_000, 2_000, 120_000
MAX_FILE_BYTES = 4 * 2**20
DATA_SUFFIXES = frozenset({".json", ".jsonl", ".csv", ".tsv", ".txt", ".ndjson"})
TEXT_SUFFIXES = frozenset({".py", ".md", ".rst", ".yaml", ".yml", ".toml", ".cfg", ".ipynb", ".sh"})
LEFT_OUT = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"})
# What may be a secret goes to nobody.
SECRET = re.compile(r"\.env|.*(?:credential|secret|id_rsa|id_ed25519|\.netrc)|.*\.(?:pem|key|p12)$", re.IGNORECASE)
# What says most about a benchmark, first.
TELLING = ("readme", "licen", "copying", "eval", "metric", "score", "grade", "data", "dataset", "prompt", "task")


class RepositoryDigest(Frozen):
    """What an LLM is told of a repository; `text` has at most `MAX_TOTAL` characters and some."""

    source: str
    text: str
    files: int
    quoted: int


def fetched(source: str, scratch: Path) -> Path:
    """The repository as a folder: `source` itself, or a shallow clone of the https URL in it.

    Raises:
        UsageError: neither a folder nor an https URL.
        PrerequisiteError: git is missing or refused (with its words).
        InfrastructureError: it took too long.
    """
    if Path(source).expanduser().is_dir():
        return Path(source).expanduser().resolve()
    url = urlsplit(source)
    if url.scheme != "https" or not url.hostname or url.username or url.password:
        raise UsageError(
            f"{shown(source)} is neither a folder nor an https URL without a user in it",
            "Clone it yourself, and give the folder.",
        )
    return _clone(source, scratch / "clone")


def _clone(url: str, target: Path) -> Path:
    options = [word for setting in GIT_SETTINGS for word in ("-c", setting)]
    flags = ("--depth=1", "--no-tags", "--single-branch", "--no-recurse-submodules", "--quiet")
    environment = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "OPENAI_API_KEY": "",
    }
    # A file limit: what a repository claims to be is not what it must turn out to be.
    limited = ("sh", "-c", f'ulimit -f {CLONE_FILE_BLOCKS}; exec "$@"', "sh")
    done = run_process(
        (*limited, "git", *options, "clone", *flags, "--", url, target),
        timeout_s=CLONE_TIMEOUT_S,
        environment=environment,
    )
    if not done.has_succeeded:
        raise PrerequisiteError(
            f"git could not clone {shown(url)}: {done.last_lines(5)}", "Clone it yourself, and give the folder."
        )
    return target


def digest_of(source: str, folder: Path) -> RepositoryDigest:
    """The digest of a folder. Links are not followed; binary, huge and secret files are left out.

    Raises:
        UsageError: there is no text in it.
    """
    files = sorted(_files(folder), key=_how_telling)
    tree = [f"{size:>10} {name}" for name, size in sorted(files)[:MAX_TREE_LINES]]
    if len(files) > MAX_TREE_LINES:
        tree.append(f"... and {len(files) - MAX_TREE_LINES} more files")
    parts, room, quoted = ["Files (bytes, path):\n" + "\n".join(tree)], MAX_TOTAL, 0
    for name, size in files:
        text = _quotation(folder / name, size)
        if text and room > 0:
            text = text[:room]
            parts.append(f"===== {name} =====\n{text}")
            room -= len(text)
            quoted += 1
    if not quoted:
        raise UsageError(f"{shown(source)} holds no text that could be read", "Name a repository with a README.")
    return RepositoryDigest(source=source, text="\n\n".join(parts), files=len(files), quoted=quoted)


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Relative path and size of the regular files, at most `MAX_ENTRIES`."""
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in sorted(names):
            path = Path(root) / name
            state = path.lstat()
            if stat.S_ISREG(state.st_mode) and not SECRET.match(name):
                yield path.relative_to(folder).as_posix().encode(errors="replace").decode(), state.st_size
                count += 1
            if count >= MAX_ENTRIES:
                return


def _how_telling(entry: tuple[str, int]) -> tuple[int, int, str]:
    name = entry[0].lower()
    depth = name.count("/")
    rank = next((number for number, word in enumerate(TELLING) if word in PurePosixPath(name).name), len(TELLING))
    return (rank, depth, name) if rank < 3 else (3 + depth, rank, name)


def _quotation(path: Path, size: int) -> str:
    """The text of a source file, the head of a data file, nothing of anything else."""
    suffix = path.suffix.lower()
    is_text = suffix in TEXT_SUFFIXES or not suffix
    if size == 0 or (is_text and size > MAX_FILE_BYTES) or not (is_text or suffix in DATA_SUFFIXES):
        return ""
    limit = MAX_TEXT if is_text else MAX_SAMPLE
    try:
        with opened(path) as file:
            head = file.read(4 * limit) if file else b""
    except OSError:
        return ""
    if not head or b"\0" in head:
        return ""
    text = head.decode("utf-8", errors="replace")
    is_whole = len(text) <= limit and len(head) == size
    return text if is_whole else f"{text[:limit]}\n[... cut; {size} bytes in all]"
