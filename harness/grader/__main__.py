"""`python -m harness.grader`: the grader service; one process, both applications, until SIGTERM."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from loguru import logger

from harness.errors import HarnessError, PrerequisiteError
from harness.grader.admin_app import create_admin_app
from harness.grader.agent_app import create_agent_app
from harness.grader.descriptors import DescriptorListener
from harness.grader.service import Grader, open_grader
from harness.grader.serving import HttpServer
from harness.home import Home
from harness.hostile_http import listen_tcp
from harness.settings import Settings, load_settings
from harness.store.database import WritableDatabase, open_writer
from harness.unix_socket import listen

if TYPE_CHECKING:
    from loguru import Message

ADMIN_MODE = 0o600
LOCK_NAME = "grader.lock"
# A thread that computes (hashing, JSON) gives way to the one that answers /time after this long, not after 5 ms.
SWITCH_INTERVAL_S = 0.001


def main() -> int:
    """Runs the grader; 0 after an orderly stop, else the error's exit code."""
    parser = argparse.ArgumentParser(prog="harness.grader", description=__doc__)
    parser.add_argument("--host", default="0.0.0.0", help="address of the agent side")
    parser.add_argument("--port", default=5000, type=int)
    parser.add_argument("--image", default="", help="what this grader runs from; told in /stats")
    parser.add_argument(
        "--service-root", default=Path("/"), type=Path, help="where services see the home's models/ and snapshots/"
    )
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        settings = load_settings()
        _log_as_json(settings)
        return _serve(settings, options)
    except HarnessError as error:
        logger.error("{}", error)
        return error.exit_code


def _serve(settings: Settings, options: argparse.Namespace) -> int:
    home = settings.resolved_home()
    stop = _stop_signal()
    _require_folders(home)
    lock = _only_one(home)
    db = open_writer(home.db)
    grader = open_grader(home, db, options.image, options.service_root)
    grader.take_up()
    servers = [
        HttpServer(create_admin_app(grader), listen(home.admin_socket, ADMIN_MODE), is_hostile=False),
        HttpServer(create_agent_app(grader), listen_tcp(options.host, options.port, "grader"), is_hostile=True),
    ]
    listener = DescriptorListener(home, grader.active, grader.intake.take_up)
    listener.start()
    for server in servers:
        server.start()
    logger.info("the grader {} answers on port {}", grader.boot_id, options.port)
    stop.wait()
    _stop(grader, db, servers, listener)
    os.close(lock)
    return 0


def _require_folders(home: Home) -> None:
    """The host makes the folders; in a container their parent is read-only."""
    for folder in (home.db_dir, home.snapshots, home.models, home.eval, home.lineage, home.admin_dir):
        if not folder.is_dir():
            raise PrerequisiteError(f"{folder} is missing", "Start the grader with `harness up`, which makes it.")


def _only_one(home: Home) -> int:
    """A descriptor that holds the home for this process: one writer, one owner of the sockets. A kill frees it."""
    lock = os.open(home.db_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise PrerequisiteError(f"another grader serves {home.path} already", "Stop it with `harness down`.") from error
    return lock


def _stop(grader: Grader, db: WritableDatabase, servers: list[HttpServer], listener: DescriptorListener) -> None:
    logger.info("the grader stops")
    grader.stop()
    listener.stop()
    for server in servers:
        server.begin_stop()
    for server in servers:
        server.stop()
    grader.home.admin_socket.unlink(missing_ok=True)
    db.close()


def _stop_signal() -> threading.Event:
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


def _log_as_json(settings: Settings) -> None:
    def write(message: Message) -> None:
        record = message.record
        line = {
            "time": record["time"].isoformat(timespec="milliseconds"),
            "level": record["level"].name,
            "module": record["name"],
            "message": record["message"],
            **record["extra"],
        }
        if record["exception"] is not None:
            line["traceback"] = str(message).strip()
        sys.stderr.write(json.dumps(line, default=str) + "\n")

    logger.remove()
    # Without `diagnose`: it would put values, a token or a hidden item, into the log.
    logger.add(write, level=settings.log_level, format="{exception}", diagnose=False, backtrace=False)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not sys.exit: a worker can be inside a call of an hour; all it does is safe to cut off.
    os._exit(code)
