"""Log messages of every module, on stderr, beside live progress and never inside it."""

from __future__ import annotations

from loguru import logger

from harness.cli.render import messages_console, without_escapes
from harness.settings import load_settings

FORMAT = "{time:HH:mm:ss} {level: <7} {message}\n"


def set_up(*, is_debug: bool) -> None:
    """Sends log messages of the level in force (`HARNESS_LOG_LEVEL`, or DEBUG) to stderr."""
    level = "DEBUG" if is_debug else load_settings().log_level.upper()
    console = messages_console()

    def sink(message: str) -> None:
        console.print(without_escapes(message), end="", markup=False, highlight=False, soft_wrap=True)

    logger.remove()
    logger.add(sink, level=level, format=FORMAT, backtrace=False, diagnose=False)
