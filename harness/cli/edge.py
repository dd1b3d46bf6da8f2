"""The edge of the command line: errors become a message, a fix and an exit code; tracebacks are kept."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path

from harness.cli.render import without_escapes
from harness.errors import HarnessError

EXIT_UNEXPECTED = 4
EXIT_INTERRUPTED = 130


def guarded(arguments: list[str]) -> int:
    """Runs the command line on `arguments`; returns its exit code and never raises an ordinary exception."""
    is_debug = "--debug" in arguments
    try:
        from harness.cli.app import app

        app(args=arguments, prog_name="harness")
    except HarnessError as error:
        if is_debug:
            traceback.print_exc()
        _say(error.what, error.fix)
        return error.exit_code
    except SystemExit as end:
        return _code(end)
    except KeyboardInterrupt:
        _say("interrupted", "")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the edge: the traceback is kept
        if is_debug:
            traceback.print_exc()
        kept = _keep_traceback()
        _say(f"unexpected {type(error).__name__}: {error}", f"This is a fault of the harness. Traceback: {kept}")
        return EXIT_UNEXPECTED
    return 0


def _code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    return end.code if isinstance(end.code, int) else 1


def _say(what: str, fix: str) -> None:
    # The last words of a container are in some of them.
    print(f"error: {without_escapes(what)}", file=sys.stderr)
    if fix:
        print(f"  fix: {without_escapes(fix)}", file=sys.stderr)


def _keep_traceback() -> Path:
    """Writes the current traceback to `$HARNESS_HOME/cache/`, or to the temporary folder where that fails."""
    text = traceback.format_exc()
    for folder in (_cache_folder(), Path(tempfile.gettempdir())):
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=folder, prefix="traceback-", suffix=".txt", delete=False) as file:
                file.write(text)
        except OSError:
            continue
        return Path(file.name)
    return Path("(could not be kept)")


def _cache_folder() -> Path | None:
    from harness.settings import load_settings

    try:
        return load_settings().resolved_home().cache
    except (HarnessError, OSError):
        return None
