"""Which run is meant, and its log: whole, safe to show, and followed to its end."""

from __future__ import annotations

import pytest

from harness.cli import logs
from harness.cli.edge import guarded
from harness.cli.selection import choose
from harness.errors import UsageError
from harness.home import Home

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


def test_the_log_comes_whole(tmp_path):
    log = tmp_path / "agent.log"
    data = b"one\ntwo\n" + b"x" * (2 * logs.MAX_PIECE + 5) + b"\nlast without end"
    log.write_bytes(data)
    assert b"".join(logs.pieces(log, lambda: True)) == data


def test_the_end_of_a_log(own_settings: Home, capsys) -> None:
    own_settings.run(IDS[0]).path.mkdir()
    own_settings.run(IDS[0]).agent_log.write_bytes(b"one\ntwo\nthree\n")
    assert guarded(["logs", IDS[0], "--tail", "2"]) == 0
    assert capsys.readouterr().out == "two\nthree\n"
    assert guarded(["logs", IDS[0], "--tail", "2", "--follow"]) == 2
    assert "--tail or --follow" in capsys.readouterr().err


def test_following_goes_on_until_the_run_has_ended(tmp_path, monkeypatch):
    log = tmp_path / "agent.log"
    log.write_bytes(b"first\nhalf a ")
    steps = [b"line\nmore\n", b"the end"]

    def next_step(_: float) -> None:
        with log.open("ab") as file:
            file.write(steps.pop(0))

    monkeypatch.setattr(logs.time, "sleep", next_step)
    found = list(logs.pieces(log, lambda: not steps))
    assert found == [b"first\n", b"half a line\n", b"more\n", b"the end"]


def test_following_waits_for_a_log_that_is_not_there_yet(tmp_path, monkeypatch):
    log = tmp_path / "agent.log"
    monkeypatch.setattr(logs.time, "sleep", lambda _: log.write_bytes(b"hello\n"))
    assert list(logs.pieces(log, log.exists)) == [b"hello\n"]


def test_following_a_run_that_is_taken_up_again_goes_on_with_its_new_log(tmp_path, monkeypatch):
    log = tmp_path / "agent.log"
    log.write_bytes(b"of the first attempt\n")
    is_over = False

    def take_up(_: float) -> None:
        nonlocal is_over
        log.rename(tmp_path / "agent.1.log")
        log.write_bytes(b"of the second attempt\n")
        is_over = True

    monkeypatch.setattr(logs.time, "sleep", take_up)
    assert list(logs.pieces(log, lambda: is_over)) == [b"of the first attempt\n", b"of the second attempt\n"]


def test_a_run_without_a_log_says_why(own_settings: Home, capsys):
    own_settings.run("20260101T000000_noop_abcd").path.mkdir()
    assert guarded(["logs"]) == 2
    assert "no log" in capsys.readouterr().err


def test_escapes_are_left_out_unless_raw(own_settings: Home, capsysbinary):
    run = own_settings.run("20260101T000000_noop_abcd")
    run.path.mkdir()
    run.agent_log.write_bytes(b"\x1b[31mred\x1b[0m\n")
    assert guarded(["logs"]) == 0
    assert capsysbinary.readouterr().out == b"red\n"
    assert guarded(["logs", "--raw"]) == 0
    assert capsysbinary.readouterr().out == b"\x1b[31mred\x1b[0m\n"
