"""Files and settings with keys of LLM providers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from harness.errors import PrerequisiteError
from harness.runner.keys import is_open_to_others, read_key
from harness.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path).model_copy(update={"openai_api_key": None})


def kept(tmp_path: Path, content: bytes, mode: int = 0o600) -> str:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_a_key_is_the_one_line_of_its_file(tmp_path: Path, settings: Settings) -> None:
    for content in (b"sk-1", b"sk-1\n", b"  sk-1\r\n\n"):
        assert read_key(kept(tmp_path, content), settings).get_secret_value() == "sk-1"
    assert read_key("", settings).get_secret_value() == ""


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two\nlines", b"two words", "schl\u00fcssel".encode(), b"\xff\xfe", b"a\x00b", b"x" * 5000]
)
def test_what_is_no_key_is_refused_without_being_shown(tmp_path: Path, settings: Settings, content: bytes) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        read_key(kept(tmp_path, content), settings)
    assert "one line" in caught.value.fix
    shown = content.decode(errors="replace").strip()
    assert not shown or shown not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path, settings: Settings) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(PrerequisiteError, match="key file"):
            read_key(str(path), settings)


def test_a_setting_that_is_gone_when_a_run_is_taken_up_is_named(settings: Settings) -> None:
    with pytest.raises(PrerequisiteError, match="the setting OPENAI_API_KEY is gone"):
        read_key("OPENAI_API_KEY", settings)
    found = settings.model_copy(update={"openai_api_key": SecretStr(" sk-2 ")})
    assert read_key("OPENAI_API_KEY", found).get_secret_value() == "sk-2"


def test_files_that_others_can_read_are_told(tmp_path: Path) -> None:
    assert is_open_to_others(kept(tmp_path, b"sk", 0o644))
    assert not is_open_to_others(kept(tmp_path, b"sk", 0o600))
    assert not is_open_to_others(str(tmp_path / "gone"))
    assert not is_open_to_others("OPENAI_API_KEY")
    assert not is_open_to_others("")
