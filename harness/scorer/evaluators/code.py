"""`code`: a model's program runs in the executor, the benchmark's check of it runs here.

eval.py has `program(question, model_answer, **extra)`, which returns the program's source (None: the answer holds
none), and `check(candidate, question, reference, **extra)`, which calls `candidate.function(name)(...)` and raises
(AssertionError, as a rule) if the program is wrong. It may return a score in [0, 1]; nothing counts as 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.errors import EvaluationFailed
from harness.executor.client import Candidate, CandidateFailed, Session, open_session
from harness.executor.literals import NotLiteral
from harness.scorer.evaluators.bounded import TookTooLong, bounded
from harness.scorer.evaluators.eval_file import EvalFile, score_of, words_of
from harness.scorer.wire import ItemVerdict, ScoreItem

PROGRAM_POSITIONAL = ("question", "model_answer")
CHECK_POSITIONAL = ("candidate", "question", "reference")
# Candidates at a time: enough that those that only wait hold up no others.
CANDIDATES = 64
# Of a check's own work, without the candidate's: a candidate may return what makes it go on for ever.
CHECK_CPU_S = 10.0
# No value that a candidate returns makes Python raise these: the benchmark's own code is at fault.
OWN_FAULTS = (NameError, ImportError, SyntaxError, NotLiteral)


class Code:
    """An `Evaluator` on one eval.py and one executor; `program` may stand in for eval.py's."""

    def __init__(self, eval_file: Path, executor: Path, program: Callable[..., str | None] | None = None) -> None:
        file = EvalFile(eval_file)
        self._program = program or file.function("program", PROGRAM_POSITIONAL)
        self._check = file.function("check", CHECK_POSITIONAL)
        self._executor = executor

    def run(self, items: Sequence[ScoreItem]) -> list[ItemVerdict]:
        """See `Evaluator`.

        Raises:
            ExecutorGone: the executor is not there or broke off; never a score.
        """
        with open_session(self._executor) as session, ThreadPoolExecutor(CANDIDATES) as pool:
            pending = [pool.submit(self._verdict, session, item) for item in items]
            try:
                return [verdict.result() for verdict in pending]
            finally:
                for verdict in pending:
                    verdict.cancel()

    def _verdict(self, session: Session, item: ScoreItem) -> ItemVerdict:
        try:
            source = self._program(item.question, item.answer, extra=item.extra)
        except (Exception, SystemExit) as error:
            raise EvaluationFailed(f"item {item.item_id}: program() raised {words_of(error)}") from error
        score = 0.0 if source is None else self._score(session, item, source)
        return ItemVerdict(item_id=item.item_id, score=score, is_extracted=source is not None)

    def _score(self, session: Session, item: ScoreItem, source: str) -> float:
        try:
            candidate = session.load(source)
        except CandidateFailed:
            return 0.0
        try:
            return self._judged(candidate, item)
        finally:
            candidate.close()

    def _judged(self, candidate: Candidate, item: ScoreItem) -> float:
        try:
            with bounded(CHECK_CPU_S):
                value = self._check(candidate, item.question, item.reference, extra=item.extra)
        except (CandidateFailed, TookTooLong, AssertionError):
            return 0.0
        except EvaluationFailed:
            raise
        except (Exception, SystemExit) as error:
            # What a check makes of a value that it does not expect is the candidate's doing, if it got a value.
            if candidate.calls == 0 or isinstance(error, (*OWN_FAULTS, SystemExit)):
                raise EvaluationFailed(f"item {item.item_id}: check() raised {words_of(error)}") from error
            return 0.0
        return 0.0 if candidate.has_failed else score_of(item, "check", 1.0 if value is None else value)
