"""`harness check agent` on real Docker: what is shipped, what `harness new agent` writes, and what must be found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from built_images import built_image
from leftovers import nothing_is_left

from harness.cli.edge import guarded
from harness.home import Home

pytestmark = pytest.mark.docker
START = "#!/usr/bin/env bash\n"


@pytest.fixture(autouse=True)
def images() -> None:
    built_image("agent")


def results(target: str, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    assert guarded(["check", "agent", target, "--json"]) == code
    return {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}


def folder_with(tmp_path: Path, **files: str) -> str:
    folder = tmp_path / "mine"
    folder.mkdir()
    given = {"config.yaml": "name: mine\ndescription: An agent that is only tried.\n", "start.sh": START, **files}
    for name, content in given.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_shipped_agent_passes(own_settings: Home, capsys: pytest.CaptureFixture[str]) -> None:
    checks = results("noop", capsys, 0)
    assert "exit code 0" in checks["start"]["what"]
    assert " MB" in checks["image"]["what"]
    nothing_is_left(own_settings)


@pytest.mark.parametrize("protocol", ["none", "openai"])
def test_a_new_agent_passes_at_once(
    own_settings: Home, tmp_path: Path, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(["new", "agent", "mine", "--into", str(tmp_path), "--llm", protocol]) == 0
    assert f"harness check agent {tmp_path / 'mine'}" in capsys.readouterr().err
    checks = results(str(tmp_path / "mine"), capsys, 0)
    # Importing torch may take longer than a start is watched.
    assert protocol == "none" or "Network is unreachable" in checks["start"]["what"]
    nothing_is_left(own_settings)


def test_an_agent_that_term_does_not_end_is_found(
    own_settings: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stubborn = START + "trap '' TERM\nwhile true; do sleep 1; done\n"
    checks = results(folder_with(tmp_path, **{"start.sh": stubborn}), capsys, 1)
    assert "TERM does not end it within 15 s" in checks["start"]["what"]
    nothing_is_left(own_settings)


def test_a_program_that_is_missing_is_found(
    own_settings: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = results(folder_with(tmp_path, **{"start.sh": START + "no-such-cli < /dev/null\n"}), capsys, 1)
    assert "no-such-cli: command not found" in checks["start"]["what"]


def test_an_image_with_a_key_in_it_is_not_started(
    own_settings: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dockerfile = "ARG BASE\nFROM ${BASE}\nENV SERVICE_API_KEY=1234\n"
    checks = results(folder_with(tmp_path, Dockerfile=dockerfile), capsys, 1)
    assert "SERVICE_API_KEY" in checks["image"]["what"]
    assert checks["start"]["outcome"] == "skipped"


def test_a_build_that_fails_is_told_with_its_last_words(
    own_settings: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = results(
        folder_with(tmp_path, Dockerfile="ARG BASE\nFROM ${BASE}\nRUN echo no such thing; false\n"), capsys, 1
    )
    assert "no such thing" in checks["image"]["what"]
