"""A benchmark folder drafted by an LLM, tried by the contract suite, and sent back with what fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.authoring.briefing import briefing, complaint
from harness.authoring.chat import ChatEndpoint
from harness.authoring.reply import ALLOWED, DraftFiles, parse_reply
from harness.authoring.repository import RepositoryDigest
from harness.authoring.verdicts import CheckResult, Outcome, SuiteReport
from harness.domain.base import Frozen
from harness.domain.prompts import Message
from harness.domain.text import shown
from harness.errors import UsageError

REPORT = "DRAFT.md"
# Of an earlier reply that is shown to the model again.
MAX_ECHO = 60_000
Check = Callable[[Path], SuiteReport]


class Round(Frozen):
    """One reply of the model and what came of it."""

    failed: tuple[CheckResult, ...]
    passed: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    notes: str = ""


class DraftReport(Frozen):
    """How a draft went."""

    source: str
    model: str
    host: str
    rounds: tuple[Round, ...]
    suite: SuiteReport | None

    @property
    def has_passed(self) -> bool:
        return self.suite is not None and self.suite.has_passed


@dataclass
class Drafting:
    """One draft in the making; `check` tries a folder, `say` tells a person what happens."""

    folder: Path
    digest: RepositoryDigest
    endpoint: ChatEndpoint
    check: Check
    say: Callable[[str], None]
    _rounds: list[Round] = field(default_factory=list)
    _suite: SuiteReport | None = None

    def run(self, repairs: int) -> DraftReport:
        """Asks, writes and tries, at most 1 + `repairs` times; the last draft stays, with its report.

        Raises:
            PrerequisiteError, ServiceUnavailable: the model cannot be asked.
            InfrastructureError: the suite could not be run.
        """
        messages = list(briefing(self.folder.name, self.digest))
        for number in range(1 + repairs):
            self.say(f"asking {self.endpoint.model} at {self.endpoint.host}" + (f", repair {number}" if number else ""))
            reply = self.endpoint.ask(messages)
            tried = self._tried(reply.text)
            self._rounds.append(
                tried.model_copy(
                    update={"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
                )
            )
            report = self._report()
            (self.folder / REPORT).write_text(report_text(report), encoding="utf-8")
            if not tried.failed:
                break
            # Task, material and the last exchange: enough to repair, and bounded.
            echo = Message(role="assistant", content=reply.text[:MAX_ECHO])
            messages = [*messages[:2], echo, complaint(tried.failed)]
        return report

    def _tried(self, text: str) -> Round:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            draft = parse_reply(text)
        except UsageError as error:
            self.say(f"the reply cannot be used: {error.what}")
            failed = CheckResult(name="reply", outcome=Outcome.FAILED, what=error.what, fix=error.fix)
            return Round(failed=(failed,))
        self._write(draft)
        self._suite = self.check(self.folder)
        passed = sum(check.outcome is Outcome.PASSED for check in self._suite.checks)
        return Round(failed=self._suite.failed, passed=passed, notes=draft.notes)

    def _write(self, draft: DraftFiles) -> None:
        """Only names of the allow list, in a folder that nobody else has written to."""
        (self.folder / REPORT).unlink(missing_ok=True)
        for name in ALLOWED:
            (self.folder / name).unlink(missing_ok=True)
        for name, content in draft.files.items():
            (self.folder / name).write_text(content, encoding="utf-8")

    def _report(self) -> DraftReport:
        return DraftReport(
            source=self.digest.source,
            model=self.endpoint.model,
            host=self.endpoint.host,
            rounds=tuple(self._rounds),
            suite=self._suite,
        )


def report_text(report: DraftReport) -> str:
    """DRAFT.md."""
    lines = [
        "# Draft",
        "",
        f"Drafted by `{_plain(report.model)}` at `{_plain(report.host)}` from `{_plain(report.source)}`.",
        "Read every file before you use it: nobody has. Delete this one when you have.",
        "",
    ]
    for number, one in enumerate(report.rounds):
        name = f"repair {number}" if number else "first draft"
        tokens = (
            f"{one.prompt_tokens} tokens in, {one.completion_tokens} out" if one.prompt_tokens else "no token count"
        )
        lines.append(f"- {name}: {len(one.failed)} checks failed, {one.passed} passed ({tokens})")
        lines += [f"  - the model notes: {_plain(one.notes, 1_000)}"] if one.notes else []
    if report.suite is not None:
        lines += ["", "| check | result | |", "|---|---|---|"]
        for check in report.suite.checks:
            lines.append(f"| {check.name} | {check.outcome} | {_plain(f'{check.what} {check.fix}', 600)} |")
    elif report.rounds:
        lines += ["", "No reply could be used: " + _plain(report.rounds[-1].failed[0].what, 600)]
    return "\n".join(lines) + "\n"


def _plain(text: str, limit: int = 200) -> str:
    """Somebody else's words on one line of a table."""
    return shown(" ".join(text.split()), limit).replace("|", "\\|").replace("`", "'").replace("<", "&lt;")
