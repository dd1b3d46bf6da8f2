"""Errors become a message, a fix and an exit code; tracebacks are kept."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from harness.cli import app as commands
from harness.cli.edge import guarded
from harness.errors import InfrastructureError, PrerequisiteError, UsageError
from harness.home import Home

ROOT = Path(__file__).resolve().parents[3]


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    failing = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)

    @failing.command()
    def command(debug: bool = False) -> None:
        raise error

    monkeypatch.setattr(commands, "app", failing)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no agent x", "See `harness list agents`."), 2),
        (PrerequisiteError("no Docker", "Install it."), 3),
        (InfrastructureError("broken", "Again."), 4),
    ],
)
def test_an_error_is_shown_with_its_fix_and_exit_code(own_settings, monkeypatch, capsys, error, code):
    fail_with(monkeypatch, error)
    assert guarded([]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: {error.what}\n  fix: {error.fix}\n"


def test_an_unexpected_error_keeps_its_traceback(own_settings: Home, monkeypatch, capsys):
    fail_with(monkeypatch, ZeroDivisionError("by zero"))
    assert guarded([]) == 4
    kept = list(own_settings.cache.glob("traceback-*.txt"))
    assert len(kept) == 1
    assert "ZeroDivisionError: by zero" in kept[0].read_text()
    assert str(kept[0]) in capsys.readouterr().err


def test_debug_shows_the_traceback(own_settings, monkeypatch, capsys):
    fail_with(monkeypatch, UsageError("no agent x"))
    assert guarded(["--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_130(own_settings, monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    assert guarded([]) == 130


def test_an_unknown_option_is_usage(own_settings, capsys):
    assert guarded(["config", "--no-such-option"]) == 2
    assert "no-such-option" in capsys.readouterr().err


def test_version(capsys):
    assert guarded(["--version"]) == 0
    assert capsys.readouterr().out.startswith("harness ")


def test_help_needs_no_heavy_package():
    """`--help` answers at once: nothing but typer is loaded for it."""
    heavy = {"docker", "sqlmodel", "sqlalchemy", "huggingface_hub", "pydantic_settings", "rich", "httpx", "loguru"}
    code = (
        "import sys; from harness.cli.edge import guarded; guarded(['--help']);"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.strip() == "[]"
    assert "config" in done.stdout


def test_python_dash_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "harness", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("harness ")


def test_sigterm_runs_the_finally_blocks(own_settings: Home, tmp_path):
    """`harness logs --follow` waits; SIGTERM ends it like Ctrl-C."""
    run = own_settings.run("20260101T000000_noop_abcd")
    run.path.mkdir()
    run.agent_log.write_text("hello\n")
    run.token.touch()
    command = [sys.executable, "-m", "harness", "logs", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hello\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 130


def test_config_says_where_values_come_from(own_settings: Home, tmp_path, monkeypatch, capsys):
    (tmp_path / ".env").write_text("HARNESS_LOG_LEVEL=DEBUG\nHARNESS_QUOTA=loop\n")
    monkeypatch.setenv("HARNESS_QUOTA", "watch")
    assert guarded(["config", "--json"]) == 0
    settings = {s["name"]: s for s in json.loads(capsys.readouterr().out)}
    assert settings["HARNESS_HOME"]["source"] == "environment"
    assert (settings["HARNESS_LOG_LEVEL"]["value"], settings["HARNESS_LOG_LEVEL"]["source"]) == ("DEBUG", ".env")
    assert (settings["HARNESS_QUOTA"]["value"], settings["HARNESS_QUOTA"]["source"]) == ("watch", "environment")
    assert settings["HARNESS_DEVICE"]["source"] == "default"


@pytest.mark.parametrize("where", ["environment", "file"])
def test_an_unknown_setting_is_refused_with_the_nearest_name(own_settings, tmp_path, monkeypatch, capsys, where):
    if where == "file":
        (tmp_path / ".env").write_text("HARNESS_QUOTTA=loop\n")
    else:
        monkeypatch.setenv("HARNESS_QUOTTA", "loop")
    assert guarded(["config"]) == 2
    assert "HARNESS_QUOTA?" in capsys.readouterr().err


def test_a_value_that_does_not_fit_names_the_variable(own_settings, capsys, monkeypatch):
    monkeypatch.setenv("HARNESS_DEVICE", "tpu")
    assert guarded(["config"]) == 2
    assert "setting HARNESS_DEVICE: " in capsys.readouterr().err


def test_the_list_of_commands_is_whole_on_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert guarded(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_startup_is_quick():
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "harness", "--help"], capture_output=True, check=True)
    # About 0.2 s alone; the bound leaves room for a busy machine.
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("mode", "says"),
    [("nonsense", "no eval_mode nonsense"), pytest.param("code", "has no program()", marks=pytest.mark.docker)],
)
def test_an_eval_mode_that_cannot_be_is_a_usage_error(own_settings, capsys, mode, says):
    for command in (["run", "--agent", "noop"], ["prepare"]):
        assert guarded([*command, "--task", "arithmetic", "--eval-mode", mode]) == 2
        assert says in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.docker
def test_a_dry_run_tells_the_eval_mode(own_settings, capsys):
    options = ["--agent", "noop", "--task", "gsm8k", "--model", "x", "--dry-run"]
    assert guarded(["run", *options, "--eval-mode", "opencompass"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("eval mode")]
    assert line.split()[-1] == "opencompass"


@pytest.mark.docker
def test_a_dry_run_tells_images_that_are_missing(own_settings, capsys, monkeypatch):
    # Images of another base have tags that nothing has been built under.
    monkeypatch.setenv("HARNESS_BASE_IMAGE", "example.invalid/none:1")
    assert guarded(["run", "--agent", "noop", "--task", "arithmetic", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "could not start as it is: images are missing or stale: agent" in said
    assert "make images" in said
