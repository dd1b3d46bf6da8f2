"""What is shown is safe for a terminal, whole without one, and exact as JSON and CSV."""

from __future__ import annotations

import ast
import json
import os
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loguru import logger

from harness.cli import messages, render
from harness.cli.edge import guarded
from harness.errors import UsageError

BIDI_CONTROLS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x07b\x08c", "abc"),
        ("\x1bcreset", "reset"),
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x9b31mred", "red"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1bP1$rdevice\x1b\\text", "text"),
        ("\x1b_payload\x1b\\\x1b^private\x1b\\text", "text"),
        ("\x1b(Btext\x1b=\x1b7", "text"),
        ("\x1b[?1049h\x1b[2J\x1b[1;1Htext\x1b[0 q", "text"),
        ("\x1b]52;c;cGF5bG9hZA==\x07text", "text"),
        ("\x1b]0;never ended\nthe next line is there", "\nthe next line is there"),
        ("\x1b\x1b[31mred\x1b", "[31mred"),
        ("verdict: failed\rverdict: graded", "verdict: failedverdict: graded"),
        ("\u202egnp.exe\u2066x\u2069\u200f\u061c", "gnp.exex"),
        ("in\u200bvisible\ufeff\U000e0041\u2060", "invisible"),
        ("half \ud800 of one", "half  of one"),
        (
            "\u0645\u06cc\u200c\u0634\u0648\u062f \u00e9 \U0001f468\u200d\U0001f469",
            "\u0645\u06cc\u200c\u0634\u0648\u062f \u00e9 \U0001f468\u200d\U0001f469",
        ),
    ],
)
def test_terminal_escapes_are_left_out(text, shown):
    assert render.without_escapes(text) == shown


@given(st.text(alphabet=st.one_of(st.characters(max_codepoint=0x2FF), st.characters(min_codepoint=0x2000))))
def test_no_control_character_is_left(text):
    shown = render.without_escapes(text)
    assert all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert all(unicodedata.bidirectional(c) not in BIDI_CONTROLS for c in shown)
    assert render.without_escapes(shown) == shown
    shown.encode()


HOSTILE = "\x1b[31m\x9b31m\x1b]0;t\x07\u202e\r\ud800x"


def test_messages_and_errors_do_not_drive_a_terminal(capsys, monkeypatch):
    def fails(**_):
        raise UsageError(f"container: {HOSTILE}", f"look {HOSTILE}")

    render.messages_console.cache_clear()
    render.say(f"said {HOSTILE}")
    monkeypatch.setattr("harness.cli.app.app", fails)
    guarded([])
    err = capsys.readouterr().err
    render.messages_console.cache_clear()
    assert err == "said x\nerror: container: x\n  fix: look x\n"


def test_json_is_exact_and_does_not_drive_a_terminal(capsys):
    value = {"text": HOSTILE + "\x7f\U000e0041 \u00e9\n"}
    render.print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert render.without_escapes(out) == out
    assert "\u00e9" in out


def test_csv_is_exact_but_on_a_terminal(capsys, monkeypatch):
    render.print_csv(("a",), [("\x1b[31mred",)])
    assert capsys.readouterr().out == "a\n\x1b[31mred\n"
    monkeypatch.setattr(render.sys.stdout, "isatty", lambda: True)
    render.print_csv(("a",), [("\x1b[31mred",)])
    assert capsys.readouterr().out == "a\nred\n"


def test_log_messages_do_not_drive_a_terminal(capsys, own_settings):
    render.messages_console.cache_clear()
    messages.set_up(is_debug=True)
    logger.info("it said {}", HOSTILE)
    err = capsys.readouterr().err
    logger.remove()
    render.messages_console.cache_clear()
    assert err.rstrip().endswith("it said x")
    assert render.without_escapes(err) == err


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


def test_a_terminal_gets_no_fact_that_is_wider_than_it_is_but_for_a_path(monkeypatch: pytest.MonkeyPatch, capsys):
    facts = {"finding 1": "no word of it is longer than this line may be, " * 5, "folder": "/home/" + "long/" * 30}
    render.print_facts(facts)
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setattr(render, "_screen", lambda: 60)
    render.print_facts(facts)
    *finding, folder = capsys.readouterr().out.splitlines()
    assert len(finding) > 3
    assert max(map(len, finding)) <= 60
    assert all(line.startswith(" " * 11) for line in finding[1:])
    assert folder.endswith(facts["folder"])


def test_what_is_printed_elsewhere_is_made_safe_there():
    """`render` alone prints without another look; every other `print` of the command line has it in the call."""
    folder, own = Path(render.__file__).parent, {"app.py": "__version__", "transfer.py": "path", "plot.py": "out"}
    unsafe = []
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                text = ast.unparse(node)
                is_safe = "without_escapes(" in text or "shown(" in text or own.get(path.name, "(none)") in text
                if path.name != "render.py" and not is_safe:
                    unsafe.append(f"{path.name}: {text}")
    assert unsafe == []
