"""One evaluation in a fresh process: started, fed, read with caps, and gone afterwards with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import ValidationError

import harness
from harness.domain.text import shown
from harness.scorer.wire import ErrorReply, ScoreReply, ScoreRequest

MAX_REPLY_BYTES = 64 * 2**20
TAIL_BYTES = 2_000
CHUNK = 2**16
JOIN_S = 5.0
WORKING_DIRECTORY = Path("/tmp")

# All that the benchmark's code sees of an environment; the hash seed is fixed so that equal inputs score equally.
ENVIRONMENT = {
    "HOME": str(WORKING_DIRECTORY),
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PATH": os.defpath,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONPATH": str(Path(harness.__file__).parents[1]),
}


@dataclass(frozen=True)
class WorkerSpec:
    """Where the benchmark's code is, and what one evaluation of it may use."""

    eval_file: Path
    memory_mb: int = 8_192
    # Where the executor answers, for benchmarks that run a model's programs.
    executor: Path = Path("/executor/s.sock")


@dataclass
class _Collected:
    """What came through a pipe: at most `cap` bytes of it, from its end."""

    cap: int
    content: bytearray = field(default_factory=bytearray)
    total: int = 0

    def read_all(self, pipe: IO[bytes]) -> None:
        while chunk := pipe.read1(CHUNK):  # type: ignore[attr-defined]
            self.total += len(chunk)
            self.content += chunk
            if len(self.content) > self.cap:
                del self.content[: -self.cap]


def evaluate(request: ScoreRequest, spec: WorkerSpec) -> ScoreReply | ErrorReply:
    """The verdicts of a fresh process on `request`, or why there are none."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as replies:
        try:
            worker = _started(spec, write_end)
        finally:
            os.close(write_end)
        output, reply = _Collected(TAIL_BYTES), _Collected(MAX_REPLY_BYTES)
        try:
            has_ended = _attended(worker, request, ((output, worker.stdout), (reply, replies)))
        finally:
            _kill_group(worker)
    if not has_ended:
        return ErrorReply(kind="timeout", detail=f"the evaluation was not done after {request.timeout_s:g} s")
    return _understood(reply, worker.returncode, output)


def _started(spec: WorkerSpec, write_end: int) -> subprocess.Popen[bytes]:
    # -P: nothing that an earlier evaluation left in the working directory can be imported.
    command = [sys.executable, "-P", "-m", "harness.scorer.worker", "--eval-file", str(spec.eval_file)]
    command += ["--reply-fd", str(write_end), "--memory-mb", str(spec.memory_mb), "--executor", str(spec.executor)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(write_end,),
        cwd=WORKING_DIRECTORY,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def _attended(
    worker: subprocess.Popen[bytes],
    request: ScoreRequest,
    pipes: tuple[tuple[_Collected, IO[bytes] | None], ...],
) -> bool:
    """Feeds and reads `worker` until it ends; False if it had to be killed at the request's limit."""
    content = request.model_dump_json().encode()
    threads = [threading.Thread(target=_feed, args=(worker.stdin, content), daemon=True)]
    threads += [threading.Thread(target=sink.read_all, args=(pipe,), daemon=True) for sink, pipe in pipes]
    for thread in threads:
        thread.start()
    try:
        worker.wait(request.timeout_s)
        has_ended = True
    except subprocess.TimeoutExpired:
        has_ended = False
    # Children it left behind hold the pipes open.
    _kill_group(worker)
    for thread in threads:
        thread.join(JOIN_S)
    return has_ended


def _feed(pipe: IO[bytes] | None, content: bytes) -> None:
    if pipe is not None:
        with suppress(BrokenPipeError), pipe:
            pipe.write(content)


def _kill_group(worker: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def _understood(reply: _Collected, status: int, output: _Collected) -> ScoreReply | ErrorReply:
    tail = shown(bytes(output.content).decode(errors="replace"), TAIL_BYTES)
    if reply.total == 0:
        return ErrorReply(kind="evaluator", detail=f"eval.py ended the process (status {status}). Its output: {tail}")
    if reply.total > MAX_REPLY_BYTES:
        return ErrorReply(kind="evaluator", detail=f"more than {MAX_REPLY_BYTES} bytes of verdicts")
    for model in (ScoreReply, ErrorReply):
        with suppress(ValidationError):
            return model.model_validate_json(bytes(reply.content))
    return ErrorReply(kind="evaluator", detail=f"the evaluation's reply is not valid (status {status})")
