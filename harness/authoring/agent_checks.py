"""Checks of an agent folder as it lies there: nothing of it is run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.authoring.folder_checks import independence
from harness.authoring.verdicts import Skipped
from harness.domain.specs import Agent
from harness.errors import UsageError
from harness.gateway.redaction import Redactor
from harness.sandbox.process import run_process
from harness.trajectory.native import reader_of

MIN_DESCRIPTION = 20
PARSE_TIMEOUT_S = 30.0
MAX_TEXT_BYTES = 4 * 2**20
# Names that hold secrets, in an environment; `MAX_TOKENS` is none.
SECRET_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$", re.IGNORECASE)
BASH = re.compile(r"#!\s*/\S*\b(env\s+)?bash\b")
COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
TEE = re.compile(r"\|[^|\n]*\btee\b")
PIPEFAIL = re.compile(r"^\s*set\s.*\bpipefail\b|\bPIPESTATUS\b", re.MULTILINE)
PROMPTS = ("PROMPT_FILE", "CONTINUE_FILE")
# `prompt="$PROMPT_FILE"`, also where several are set in one line.
ALIAS = r"\b(\w+)=[\"']?\$\{?(?:%s)\b"
# `$(cat "$PROMPT_FILE")`, `$(< $PROMPT_FILE)`, and the same between backticks.
READ = r"(?:\$\(|`)\s*(?:cat\s+|<\s*)[\"']?\$\{?(?:%s)\b"


def description(agent: Agent) -> str:
    """One line says what the agent is."""
    said = agent.config.description.strip()
    if len(said) < MIN_DESCRIPTION or "\n" in said:
        raise UsageError("config.yaml does not say what this agent is", "Write one line as `description`.")
    return said


def scripts(agent: Agent) -> str:
    """The scripts that are started are there, can be executed, are for bash, and parse."""
    names = dict.fromkeys([agent.config.start, *filter(None, [agent.config.resume])])
    for name in names:
        _check_script(agent.path, name)
    return ", ".join(names)


def _check_script(folder: Path, name: str) -> None:
    path = folder / name
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or not path.is_file():
        raise UsageError(f"{name} is no file of the folder", "Name one that is in `start` and `resume`.")
    if not os.access(path, os.X_OK):
        raise UsageError(f"{name} cannot be executed", f"chmod +x {path}")
    if not BASH.match(_text(path)):
        raise UsageError(f"{name} is not for bash, with which it is run", "Begin it with `#!/usr/bin/env bash`.")
    parsed = run_process(["bash", "-n", path], timeout_s=PARSE_TIMEOUT_S)
    if not parsed.has_succeeded:
        raise UsageError(f"{name} does not parse: {parsed.last_lines(1)}", "Correct it.")


def pipes(agent: Agent) -> str:
    """No exit code is lost in a pipe."""
    for path, text in _shell_texts(agent):
        if TEE.search(text) and not PIPEFAIL.search(text):
            raise UsageError(
                f"{path.relative_to(agent.path.parent)} pipes into tee, whose exit code hides the agent's",
                "Put `set -o pipefail` at its head.",
            )
    return "no exit code is lost"


def prompt(agent: Agent) -> str | Skipped:
    """The prompt is read, after an early end the other one, and neither goes into a command line."""
    for path, text in _shell_texts(agent):
        names = "|".join([*PROMPTS, *re.findall(ALIAS % "|".join(PROMPTS), text)])
        if re.search(READ % names, text):
            raise UsageError(
                f"{path.relative_to(agent.path.parent)} puts the prompt into a variable or a command line",
                'Feed it by stdin (`< "$PROMPT_FILE"`) or name the file: an argument ends at 128 KiB.',
            )
    if not agent.config.llm:
        return Skipped(reason="it drives no LLM")
    texts = [text for _, text in _texts(agent)]
    for name in PROMPTS:
        if not any(name in text for text in texts):
            raise UsageError(f"nothing in the folder reads ${name}", 'See "Prompts" in docs/agents.md.')
    return "read from $PROMPT_FILE and $CONTINUE_FILE"


def code(agent: Agent) -> str:
    """Its Python can be read, and nothing needs the harness or its settings."""
    for path, text in _shell_texts(agent):
        if "HARNESS_" in text:
            raise UsageError(
                f"{path.relative_to(agent.path.parent)} names a setting of the harness",
                "An agent sees none: use what docs/contract.md lists.",
            )
    return independence(agent.path)


def secrets(agent: Agent) -> str:
    """No key lies in the folder: it is copied to images, digests and records."""
    for name, value in agent.config.env_vars.items():
        if value and SECRET_NAME.search(name):
            raise UsageError(f"env_vars sets {name}", "Take it out: the gateway keeps keys, agents get a run's token.")
    redact = Redactor(())
    for path, text in _texts(agent):
        if redact(text.encode()) != text.encode():
            raise UsageError(f"{path.relative_to(agent.path.parent)} holds what looks like a key", "Take it out.")
    return "none found"


def trajectory(agent: Agent) -> str | Skipped:
    """The native log is looked for in the workspace, and one of the readers understands it."""
    pattern, form = agent.config.trajectory, agent.config.trajectory_format
    if pattern is None:
        if form is not None:
            raise UsageError("trajectory_format is set, and no trajectory", "Say where the log is: `trajectory`.")
        return Skipped(reason="no native log is named: `trajectory`")
    parts = PurePosixPath(pattern).parts
    if PurePosixPath(pattern).is_absolute() or ".." in parts or not parts:
        raise UsageError(
            f"trajectory {pattern!r} leaves the workspace", "Give a pattern below it: `trajectory/*.jsonl`."
        )
    if form is not None:
        reader_of(form)
    return f"{pattern}, {f'read as {form}' if form else 'kept as it is'}"


def resume(agent: Agent) -> str | Skipped:
    """An agent that may end early can be taken up again."""
    if agent.config.resume is None and agent.config.llm:
        raise UsageError(
            "there is no `resume`",
            "Name a script that reads $CONTINUE_FILE; it may be start.sh, where $CONTINUATION is above 0.",
        )
    return agent.config.resume or Skipped(reason="it drives no LLM")


def docs(agent: Agent, root: Path) -> str | Skipped:
    """Whether an agent of the checkout that drives an LLM has its page; one that is only tried here needs none."""
    if not agent.config.llm or agent.path.parent != (root / "agents").resolve():
        return Skipped(reason="asked of agents of the checkout that drive an LLM")
    page = f"docs/agents/{agent.id}.md"
    if not (root / page).is_file():
        return Skipped(
            reason=f"no {page}: how it is driven, and its limits; wanted of agents that come with the checkout"
        )
    return page


def _shell_texts(agent: Agent) -> Iterator[tuple[Path, str]]:
    """Shell scripts, lines that go on joined, comments left out."""
    started = {agent.path / name for name in (agent.config.start, agent.config.resume) if name}
    for path, text in _texts(agent):
        if path.suffix == ".sh" or path in started:
            yield path, COMMENT.sub("", text).replace("\\\n", " ")


def _texts(agent: Agent) -> Iterator[tuple[Path, str]]:
    """Every text that is not huge, of the folder and of the one that its image is made of."""
    for path in sorted({path for folder in (agent.path, agent.image_folder) for path in folder.rglob("*")}):
        if path.is_file() and path.stat().st_size <= MAX_TEXT_BYTES and path.suffix != ".pyc":
            raw = path.read_bytes()
            if b"\0" not in raw:
                yield path, raw.decode(errors="replace")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
