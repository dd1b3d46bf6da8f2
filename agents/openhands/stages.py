"""The fixed stages of an iteration: the agent writes code, the pipeline trains and submits, the agent analyses."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from grading import Grader, Refused, Spent
from journal import Entry, Journal
from limits import Limits
from training import Training, checkpoints, command, newest, train
from turns import analysis_turn, code_turn, fix_turn, is_done


class Speaker(Protocol):
    """A conversation with the agent."""

    def say(self, text: str) -> str:
        """Sends a message and returns the agent's last words."""

    def close(self) -> None:
        """Ends it."""


@dataclass(frozen=True)
class Attempt:
    """A training and the checkpoint that it left, if any; `trouble` says in one line why there is none."""

    training: Training
    checkpoint: Path | None

    @property
    def trouble(self) -> str | None:
        if self.training.has_failed:
            return self.training.outcome()
        return None if self.checkpoint else f"{self.training.outcome()}, and no checkpoint was saved"


@dataclass(frozen=True)
class Place:
    """Where the pipeline works and on what: the task as the agent is told it, and what trains."""

    workspace: Path
    task: str
    python: str
    gpus: int


class Pipeline:
    """Iterations in a workspace; `open_session` begins a conversation for each of them."""

    def __init__(
        self, place: Place, limits: Limits, grader: Grader, journal: Journal, open_session: Callable[[], Speaker]
    ) -> None:
        self.place, self.limits, self.grader, self.journal = place, limits, grader, journal
        self.open_session = open_session

    def iterate(self) -> str | None:
        """One iteration, kept in the journal; why it was the last, if it was.

        Raises:
            LlmFailed: the LLM gave no answer; what has been scored by then is in the journal.
        """
        session = self.open_session()
        try:
            session.say(self._code_turn())
            attempt = self._train(session)
            entry, reply = self._submit(attempt)
            print(f"pipeline: {entry.line()}", flush=True)
            if reply is None:
                self.journal.add(entry)
                return "no further submission is possible"
            return self._analyse(session, entry, reply, attempt.training)
        finally:
            session.close()

    def _analyse(self, session: Speaker, entry: Entry, reply: dict[str, Any], training: Training) -> str | None:
        remaining_s, analysis = self.grader.remaining_s(), ""
        try:
            if self.limits.has_time_for_another(remaining_s):
                log = training.tail(self.limits.log_characters)
                analysis = session.say(analysis_turn(entry, reply, log, remaining_s))
        finally:
            self.journal.add(Entry(**{**vars(entry), "analysis": analysis}))
        return "the agent says that it is done" if is_done(analysis) else None

    def _train(self, session: Speaker) -> Attempt:
        """Runs the script, and again after each correction, until it leaves a checkpoint or the tries are used up."""
        folder = self.place.workspace / "pipeline" / f"iteration_{self.journal.next_iteration:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, self.limits.fixes + 2):
            attempt = self._attempt(folder, number)
            is_last = number > self.limits.fixes
            if attempt.trouble is None or is_last or not self.limits.has_time_for_another(self.grader.remaining_s()):
                return attempt
            print(f"pipeline: training failed: {attempt.trouble}", flush=True)
            log = attempt.training.tail(self.limits.log_characters)
            session.say(fix_turn(attempt.trouble, log, self._training_s()))
        raise AssertionError("not reached")

    def _attempt(self, folder: Path, number: int) -> Attempt:
        script = self.place.workspace / "code" / "train.py"
        if script.is_file():
            shutil.copyfile(script, folder / f"train_{number}.py")
        output, limit_s = self.place.workspace / "output", self._training_s()
        before = checkpoints(output)
        print(f"pipeline: training for {limit_s:.0f} s at most", flush=True)
        training = train(command(self.place.python, script, self.place.gpus), folder / f"train_{number}.log", limit_s)
        return Attempt(training, newest(checkpoints(output), before))

    def _submit(self, attempt: Attempt) -> tuple[Entry, dict[str, Any] | None]:
        """What the grader said, nothing where it takes no more."""
        number, outcome = self.journal.next_iteration, attempt.training.outcome()
        if attempt.checkpoint is None:
            return Entry(number, outcome, trouble=attempt.trouble), {"error": attempt.trouble}
        path = str(attempt.checkpoint.relative_to(self.place.workspace))
        try:
            reply = self.grader.score(path)
        except Spent as error:
            return Entry(number, outcome, path, trouble=str(error)), None
        except Refused as error:
            reply = {"score": None, "error": str(error)}
        return Entry(number, outcome, path, reply["score"], reply.get("error")), reply

    def _training_s(self) -> float:
        return self.limits.training_time_s(self.grader.remaining_s())

    def _code_turn(self) -> str:
        shown = shlex.join(command(self.place.python, Path("code/train.py"), self.place.gpus))
        return code_turn(self.place.task, self.journal, self.limits.iterations, shown, self._training_s())
