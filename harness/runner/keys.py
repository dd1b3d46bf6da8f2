"""Keys of LLM providers: which one a run's gateway gets, and reading it at the moment it is needed."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from harness.domain.llm import Provider
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.settings import Settings

MAX_BYTES = 4096
SHORTEST_KEY = 20
# Provider -> name of the setting with its key.
KEY_SETTINGS: Mapping[Provider, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}


def key_source(provider: Provider, named: Path | None, settings: Settings) -> str:
    """Where the provider's key comes from: the file that was named, the home's, a setting; empty where there is none.

    Raises:
        UsageError: the named file is not there.
    """
    if named is not None:
        if not named.is_file():
            # A long name without an ending may be the key itself, put in the place of its file: it is not repeated.
            name = f" {named}" if named.suffix or len(named.name) < SHORTEST_KEY else ""
            raise UsageError(f"the key file{name} is not there", "Give --llm-key-file a file of one line: the key.")
        return str(named.resolve())
    kept = kept_key(settings.resolved_home(), provider)
    if kept.exists():
        return str(kept)
    return KEY_SETTINGS[provider] if _of_setting(KEY_SETTINGS[provider], settings) is not None else ""


def kept_key(home: Home, provider: Provider) -> Path:
    """Where a user puts the provider's key for every run."""
    return home.keys / provider


def read_key(source: str, settings: Settings) -> SecretStr:
    """The key at `source`; empty for no source.

    Raises:
        PrerequisiteError: it is not there any more, or is no key.
    """
    if not source:
        return SecretStr("")
    if source in KEY_SETTINGS.values():
        found = _of_setting(source, settings)
        if found is None:
            raise PrerequisiteError(f"the setting {source} is gone", "Set it again: the run was started with it.")
        return SecretStr(_checked(found.get_secret_value(), f"the setting {source}"))
    return SecretStr(_checked(_content(Path(source)), f"the key file {source}"))


def is_open_to_others(source: str) -> bool:
    """Whether `source` is a file that other users of this machine can read."""
    path = Path(source)
    return source.startswith("/") and path.is_file() and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def _content(path: Path) -> str:
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_BYTES:
            raise PrerequisiteError(f"the key file {path} is no file of one line", "It holds one line: the key.")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PrerequisiteError(
            f"the key file {path} cannot be read: {type(error).__name__}", "It holds one line: the key."
        ) from error


def _checked(text: str, what: str) -> str:
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise PrerequisiteError(f"{what} holds no key", "It is one line without blanks: the key.")
    return key


def _of_setting(name: str, settings: Settings) -> SecretStr | None:
    value: SecretStr | None = getattr(settings, name.lower())
    return value if value is not None and value.get_secret_value().strip() else None
