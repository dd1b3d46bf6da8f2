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
from typing import IO, TypeVar

from pydantic import BaseModel, ValidationError

import harness
from harness.domain.text import shown
from harness.scorer.wire import ErrorReply, Job, PromptsReply, PromptsRequest, ScoreReply, ScoreRequest

MAX_REPLY_BYTES = 64 * 2**20
TAIL_BYTES = 2_000
CHUNK = 2**16
JOIN_S = 5.0
WORKING_DIRECTORY = Path("/tmp")

# All that the benchmark's code sees of an environment; the hash seed is fixed so that equal inputs score equally, and
# a library that would look for something on a hub does not wait for it.
ENVIRONMENT = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "HOME": str(WORKING_DIRECTORY),
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PATH": os.defpath,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONPATH": str(Path(harness.__file__).parents[1]),
}

Made = TypeVar("Made", bound=BaseModel)


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


class Worker:
    """One process that is started, waits for its only request, and is gone when that is answered."""

    def __init__(self, spec: WorkerSpec) -> None:
        read_end, write_end = os.pipe()
        self._replies = os.fdopen(read_end, "rb")
        try:
            self._process = _started(spec, write_end)
        except BaseException:
            self._replies.close()
            raise
        finally:
            os.close(write_end)
        self._output, self._reply = _Collected(TAIL_BYTES), _Collected(MAX_REPLY_BYTES)
        # From its start: what it prints must never hold it up.
        self._readers = {
            pipe: _thread(sink.read_all, pipe)
            for sink, pipe in ((self._output, self._process.stdout), (self._reply, self._replies))
            if pipe is not None
        }

    def is_alive(self) -> bool:
        """Whether it can still be handed a request."""
        return self._process.poll() is None

    def score(self, request: ScoreRequest) -> ScoreReply | ErrorReply:
        """The verdicts on `request`, or why there are none."""
        return self._answered(Job(score=request), request.timeout_s, ScoreReply)

    def prompts(self, request: PromptsRequest) -> PromptsReply | ErrorReply:
        """The prompts that the evaluator makes, or why there are none."""
        return self._answered(Job(prompts=request), request.timeout_s, PromptsReply)

    def end(self) -> None:
        """Kills it and all it started; it may be gone."""
        self._kill()
        # A child that got away may hold a pipe open: to close it here would wait for its reader.
        for pipe, reader in self._readers.items():
            reader.join(JOIN_S)
            if not reader.is_alive():
                pipe.close()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answered(self, job: Job, limit_s: float, model: type[Made]) -> Made | ErrorReply:
        feeder = _thread(_feed, self._process.stdin, job.model_dump_json().encode())
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return ErrorReply(kind="timeout", detail=f"the evaluation was not done after {limit_s:g} s")
        finally:
            self._kill()
            feeder.join(JOIN_S)
            self.end()
        return self._understood(model)

    def _understood(self, model: type[Made]) -> Made | ErrorReply:
        status, reply = self._process.returncode, self._reply
        tail = shown(bytes(self._output.content).decode(errors="replace"), TAIL_BYTES)
        if reply.total == 0:
            return ErrorReply(
                kind="evaluator", detail=f"the evaluator ended its process ({status}). Its output: {tail}"
            )
        if reply.total > MAX_REPLY_BYTES:
            return ErrorReply(kind="evaluator", detail=f"the reply has more than {MAX_REPLY_BYTES} bytes")
        with suppress(ValidationError):
            return model.model_validate_json(bytes(reply.content))
        with suppress(ValidationError):
            return ErrorReply.model_validate_json(bytes(reply.content))
        return ErrorReply(kind="evaluator", detail=f"the evaluation's reply is not valid (status {status})")


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


def _thread(work: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _feed(pipe: IO[bytes] | None, content: bytes) -> None:
    if pipe is not None:
        with suppress(BrokenPipeError), pipe:
            pipe.write(content)
