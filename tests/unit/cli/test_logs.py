"""Which run is meant, and its log: whole, safe to show, and followed to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import logs
from harness.cli.selection import choose
from harness.errors import UsageError
from harness.home import RunFolder

IDS = ["20260101T000000_noop_aaaa", "20260101T000000_noop_aabb", "20260202T000000_example_cccc"]


@pytest.mark.parametrize(
    ("name", "index"), [("latest", 2), ("202602", 2), (IDS[0], 0), ("20260101T000000_noop_aab", 1)]
)
def test_a_run_is_found_by_id_beginning_or_latest(name, index):
    assert choose(name, IDS) == IDS[index]


@pytest.mark.parametrize("name", ["2026", "nothing", ""])
def test_no_or_several_runs_are_refused(name):
    with pytest.raises(UsageError):
        choose(name, IDS)


def test_a_typing_error_gets_the_nearest_id():
    with pytest.raises(UsageError) as caught:
        choose("20260202T000000_exmaple_cccc", IDS)
    assert IDS[2] in caught.value.fix


def test_without_runs_it_says_how_to_start_one():
    with pytest.raises(UsageError, match="no runs yet"):
        choose("latest", [])


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_the_log_comes_whole(folder):
    data = b"one\ntwo\n" + b"x" * (2 * logs.MAX_PIECE + 5) + b"\nlast without end"
    folder.agent_log.write_bytes(data)
    assert b"".join(logs.pieces(folder, is_followed=False)) == data


def test_following_goes_on_until_the_run_has_ended(folder, monkeypatch):
    folder.token.touch()
    folder.agent_log.write_bytes(b"first\nhalf a ")

    def next_step(_: float) -> None:
        with folder.agent_log.open("ab") as file:
            file.write(b"line\nthe end")
        folder.token.unlink()

    monkeypatch.setattr(logs.time, "sleep", next_step)
    assert list(logs.pieces(folder, is_followed=True)) == [b"first\n", b"half a line\n", b"the end"]


def test_a_run_without_a_log_says_why(folder):
    with pytest.raises(UsageError, match="no log"):
        list(logs.pieces(folder, is_followed=False))
