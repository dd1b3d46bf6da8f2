"""What is shown is safe for a terminal, whole without one, and exact as JSON and CSV."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import render


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x07b\x08c", "abc"),
        ("\x1bcreset", "reset"),
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x9b31mred", "31mred"),
    ],
)
def test_terminal_escapes_are_left_out(text, shown):
    assert render.without_escapes(text) == shown


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF)))
def test_no_control_character_is_left(text):
    shown = render.without_escapes(text)
    assert all(c in "\n\t" or (ord(c) >= 32 and not 127 <= ord(c) < 160) for c in shown)


def test_a_table_is_whole_without_a_terminal(capsys):
    long = "x" * 150
    render.print_table(("name", "value"), [(long, 1.25), ("b", None)])
    out = capsys.readouterr().out
    assert long in out
    assert "1.2" in out
    assert "\x1b" not in out


def test_a_wide_table_is_not_folded_without_a_terminal(capsys):
    columns = [f"column_number_{n}" for n in range(40)]
    render.print_table(columns, [[f"value_{n}" for n in range(40)]])
    assert any(all(name in line for name in columns) for line in capsys.readouterr().out.splitlines())


def test_a_table_too_wide_for_the_terminal_becomes_blocks(capsys, monkeypatch):
    monkeypatch.setattr(render.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(render.shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    render.print_table([f"column_number_{n}" for n in range(9)], [[f"value_{n}" for n in range(9)]])
    assert "column_number_3  value_3" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("improvement_p_value", 7.778769e-62, "7.78e-62"),
        ("truncation_rate", 0.0433333, "0.0433"),
        ("cosine", -0.31234, "-0.312"),
        ("improvement_pct", 0.33333, "0.3"),
        ("final_pct", 98.3333, "98.3"),
        ("mean_output_tokens", 2.94, "2.9"),
        ("truncation_rate", 0.0, "0.0"),
    ],
)
def test_what_is_small_is_not_rounded_to_nothing(name, value, shown):
    assert render.as_text(value, name) == shown


def test_a_run_id_is_never_folded(capsys, monkeypatch):
    monkeypatch.setattr(render.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(render.shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    run_id = "20261130T214754_example_307b"
    render.print_table(("run_id", "detail"), [(run_id, "long words " * 20)])
    assert run_id in capsys.readouterr().out


def test_an_empty_table_shows_its_columns(capsys):
    render.print_table(("name", "value"), [])
    assert "name" in capsys.readouterr().out


def test_markup_in_a_cell_is_text(capsys):
    render.print_table(("name",), [("[bold]x[/bold]",)])
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_json_takes_times(capsys):
    render.print_json({"at": datetime(2026, 1, 2, tzinfo=UTC)})
    assert json.loads(capsys.readouterr().out) == {"at": "2026-01-02T00:00:00+00:00"}


def test_csv_quotes(capsys):
    render.print_csv(("a", "b"), [('x,"y"', None)])
    assert capsys.readouterr().out == 'a,b\n"x,""y""",\n'


def test_a_value_of_several_lines_cannot_pass_for_a_fact(capsys):
    render.print_facts({"state": "no_submission", "why": "no such\nverdict  graded\r\n\nscore 99\u2028end"})
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "state  no_submission"
    assert [line[:5] for line in lines[1:]] == ["why  ", *[" " * 5] * 4, ""]
