"""A run's tokens: made once, kept in files that nobody else reads, gone with the run."""

from __future__ import annotations

import secrets
from pathlib import Path

from harness.runner.files import write_whole

TOKEN_BYTES = 32


def kept_token(path: Path) -> str:
    """The token at `path`; a run that ended has none, so one that is taken up again gets a new one."""
    if not path.is_file():
        write_whole(path, secrets.token_urlsafe(TOKEN_BYTES), mode=0o600)
    return path.read_text()
