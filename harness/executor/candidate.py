"""The process of one candidate: confines itself, loads the program, and answers calls with literals.

Everything in here is at the candidate's mercy from the moment its program is loaded. Nothing depends on it: a reply is
believed to be what the candidate says, and what it says is judged elsewhere.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from harness.executor.frames import LENGTH
from harness.executor.literals import decode, dumps
from harness.executor.system_calls import Filter

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
MODULE_NAME = "candidate"
CHANNEL = 3
MAX_WORDS = 300
NICENESS = 5
MAX_OPEN_FILES = 64
STACK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Limits:
    """What one candidate may use: seconds of CPU time and of waiting, megabytes of address space."""

    # A change of these changes scores: raise EVALUATORS_VERSION (harness/domain/specs.py) with it.
    cpu_s: int = 3
    idle_s: float = 3.0
    memory_mb: int = 512


def become(channel: int, limits: Limits, system_calls: Filter) -> NoReturn:
    """Turns this forked process into a candidate that is served on `channel`, for the rest of its life."""
    try:
        _confine(channel, limits, system_calls)
        _serve()
    except BaseException:  # noqa: BLE001 - nothing of a candidate may go on as a second service
        os._exit(1)
    os._exit(0)


def _confine(channel: int, limits: Limits, system_calls: Filter) -> None:
    os.setsid()
    system_calls.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _be_the_first_to_go(system_calls)
    os.dup2(channel, CHANNEL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(CHANNEL + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.nice(NICENESS)
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_STACK, STACK_BYTES),
        (resource.RLIMIT_AS, limits.memory_mb * 2**20),
        (resource.RLIMIT_CPU, limits.cpu_s),
    ):
        resource.setrlimit(kind, (value, value))
    # The same answer must behave the same each time.
    random.seed(0)
    system_calls.apply()


def _be_the_first_to_go(system_calls: Filter) -> None:
    """Where memory runs out, the kernel ends candidates, not the service; the file is not ours while undumpable."""
    system_calls.prctl(PR_SET_DUMPABLE, 1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    system_calls.prctl(PR_SET_DUMPABLE, 0)


def _serve() -> None:
    # A real module: dataclasses and typing look up the module of what they are given.
    module = sys.modules[MODULE_NAME] = ModuleType(MODULE_NAME)
    while (request := _read()) is not None:
        _write(_answer(json.loads(request), module.__dict__))


def _answer(message: dict[str, Any], namespace: dict[str, Any]) -> bytes:
    """The token of the request, and the value or what went wrong."""
    token = json.dumps(message["token"]).encode()
    try:
        if "source" in message:
            # Without this module's own `from __future__`: annotations are evaluated, as anywhere else.
            exec(compile(message["source"], "<candidate>", "exec", dont_inherit=True), namespace)
            value = None
        else:
            value = _function(namespace, message["name"])(*decode(message["args"]), **decode(message["kwargs"]))
        return b'{"token":%s,"value":%s}' % (token, dumps(value))
    except BaseException as error:  # noqa: BLE001 - whatever a candidate raises, SystemExit too, is its answer
        return b'{"token":%s,"error":%s}' % (token, json.dumps(_words(error)).encode())


def _function(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = namespace[name]
    return function


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:MAX_WORDS]
    except BaseException:  # noqa: BLE001 - its __str__ is the candidate's too
        return "an exception that cannot be told"


def _read() -> bytes | None:
    """The next request; None where there will be none."""
    head = _exactly(LENGTH.size)
    return None if head is None else _exactly(LENGTH.unpack(head)[0])


def _exactly(size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        chunk = os.read(CHANNEL, size - len(content))
        if not chunk:
            return None
        content += chunk
    return bytes(content)


def _write(content: bytes) -> None:
    waiting = memoryview(LENGTH.pack(len(content)) + content)
    while waiting:
        waiting = waiting[os.write(CHANNEL, waiting) :]


def prepare() -> None:
    """Loads what programs often import once, in the service, so that a candidate starts in milliseconds."""
    for name in USUAL_MODULES:
        __import__(name)


USUAL_MODULES = (
    "bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "hashlib", "heapq",
    "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing",
)  # fmt: skip
