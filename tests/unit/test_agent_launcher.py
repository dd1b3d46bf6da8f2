"""What of the processes in a container is background work; the launcher as a whole is tested in containers."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT
from standalone import loaded


@pytest.fixture(scope="module")
def launcher() -> ModuleType:
    return loaded(ROOT / "images" / "agent" / "launch.py")


def process(proc: Path, pid: int, parent: int, ticks: int = 0, state: str = "S", name: str = "x") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "comm").write_text(name)
    # After state and parent: eight fields that do not matter, then four of processor time.
    (folder / "stat").write_text(f"{pid} ({name}) {state} {parent} {'0 ' * 9}{ticks} 0 0 1 20 0 1 0 0")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Init, the timer, and the launcher itself, which is this process."""
    process(tmp_path, 1, 0, name="init")
    process(tmp_path, 7, 1, name="timeout")
    process(tmp_path, os.getpid(), 7, name="python3")
    (tmp_path / "meminfo").write_text("no process")
    return tmp_path


def test_the_launcher_and_what_is_above_it_is_no_work(launcher: ModuleType, proc: Path) -> None:
    assert launcher.others(proc) == {}


def test_work_is_counted_with_the_time_of_ended_children(launcher: ModuleType, proc: Path) -> None:
    process(proc, 90_000_001, 1, ticks=41)
    assert launcher.others(proc) == {90_000_001: 42}


def test_the_dead_are_no_work(launcher: ModuleType, proc: Path) -> None:
    for number, state in enumerate("ZX"):
        process(proc, 90_000_001 + number, 1, state=state)
    assert launcher.others(proc) == {}


def test_a_name_can_hold_anything(launcher: ModuleType, proc: Path) -> None:
    process(proc, 90_000_001, 1, name=") Z 1 (")
    assert list(launcher.others(proc)) == [90_000_001]
    (proc / "90000001" / "comm").write_bytes(b"\x1b[2J\xff")
    assert launcher.names({90_000_001: 0}, proc) == "?[2J\ufffd (90000001)"


def test_only_a_few_are_named(launcher: ModuleType, proc: Path) -> None:
    for number in range(1, 8):
        process(proc, 90_000_000 + number, 1)
    assert launcher.names(launcher.others(proc), proc).endswith("x (90000005) and 2 more")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({5: 100}, {5: 100}, False),
        ({5: 100}, {5: 105}, False),
        ({5: 100}, {5: 150}, True),
        ({}, {6: 50}, True),
        ({5: 100}, {}, False),
        ({5: 100, 6: 100}, {5: 106, 6: 106}, False),
    ],
)
def test_a_process_is_busy_that_uses_more_than_a_little(
    launcher: ModuleType, before: dict[int, int], now: dict[int, int], expected: bool
) -> None:
    ticks = os.sysconf("SC_CLK_TCK") / 100
    scaled = [{pid: round(count * ticks) for pid, count in some.items()} for some in (before, now)]
    assert launcher.is_busy(*scaled, 5.0) is expected


def test_a_gpu_is_asked_for_where_there_is_one(
    launcher: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not launcher.has_busy_gpu()
    tool = tmp_path / "nvidia-smi"
    for share, expected in ((0, False), (97, True)):
        tool.write_text(f"#!/bin/sh\necho 0\necho {share}\n")
        tool.chmod(0o755)
        assert launcher.has_busy_gpu() is expected
    tool.write_text("#!/bin/sh\necho '[N/A]'\nexit 9\n")
    assert not launcher.has_busy_gpu()
