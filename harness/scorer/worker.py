"""The process of one evaluation: a Job on stdin, its reply or an ErrorReply on a descriptor of its own.

Whatever the benchmark's code prints goes to stdout and stderr, which carry no verdicts.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from harness.errors import EvaluationFailed
from harness.scorer.evaluators import opencompass
from harness.scorer.evaluators.base import Place, build_evaluator, build_prompter
from harness.scorer.wire import ErrorReply, Job, PromptsReply, PromptsRequest, ScoreReply, ScoreRequest

CPU_MARGIN_S = 10


def main() -> None:
    """Answers one request and ends."""
    parser = argparse.ArgumentParser(prog="harness.scorer.worker", description=__doc__)
    parser.add_argument("--eval-file", required=True, type=Path)
    parser.add_argument("--executor", required=True, type=Path)
    parser.add_argument("--reply-fd", required=True, type=int)
    parser.add_argument("--memory-mb", required=True, type=int)
    options = parser.parse_args()
    # The benchmark's own children must not hold the reply open.
    os.set_inheritable(options.reply_fd, False)
    _die_first()
    if opencompass.is_installed():
        opencompass.preload()
    content = sys.stdin.buffer.read()
    if not content:
        # The service has gone while this one waited.
        return
    job = Job.model_validate_json(content)
    request = job.score or job.prompts
    if request is None:
        raise ValueError("a job without a request")
    _limit(options.memory_mb, request.timeout_s)
    reply = _answer(request, Place(options.eval_file, options.executor))
    with os.fdopen(options.reply_fd, "wb") as out:
        out.write(reply.model_dump_json().encode())
    # Threads and exit handlers of the benchmark's code are not waited for.
    sys.stdout.flush()
    os._exit(0)


def _answer(request: ScoreRequest | PromptsRequest, place: Place) -> ScoreReply | PromptsReply | ErrorReply:
    try:
        if isinstance(request, PromptsRequest):
            return build_prompter(request, place).prompts(request.items, chat=request.chat)
        return ScoreReply(verdicts=tuple(build_evaluator(request, place).run(request.items)))
    except EvaluationFailed as error:
        return ErrorReply(kind="evaluator", detail=str(error).encode("utf-8", errors="replace").decode())


def _die_first() -> None:
    """Where the container runs out of memory, this process goes and the service stays."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _limit(memory_mb: int, timeout_s: float) -> None:
    cpu_s = int(timeout_s * (os.cpu_count() or 1)) + CPU_MARGIN_S
    for kind, value in (
        (resource.RLIMIT_AS, memory_mb * 2**20),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main()
