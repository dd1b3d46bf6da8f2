"""The files in an LLM's reply, read strictly: nothing is written under a name or in a size that it chooses freely."""

from __future__ import annotations

import re

from harness.checkpoint.strict_json import parse_json
from harness.domain.base import Frozen
from harness.domain.text import shown
from harness.errors import UsageError
from harness.runner.data_sources import SCRIPTS

NEEDED = ("config.yaml", "eval.py", "description.md")
ALLOWED = frozenset({*NEEDED, *SCRIPTS})
MAX_REPLY, MAX_FILE_BYTES, MAX_NOTES = 400_000, 64 * 2**10, 4_000
FENCED = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n```\s*\Z", re.S)


class DraftFiles(Frozen):
    """File name -> content, of the allowed names only; `notes` is what the model wants to be known."""

    files: dict[str, str]
    notes: str = ""


def parse_reply(text: str) -> DraftFiles:
    """The draft in a reply: one JSON object, maybe in one code fence, and nothing beside it.

    Raises:
        UsageError: it is anything else; says what, for the model to correct.
    """
    if len(text) > MAX_REPLY:
        raise UsageError(f"the reply has {len(text)} characters", f"At most {MAX_REPLY}.")
    fenced = FENCED.match(text)
    try:
        reply = parse_json((fenced[1] if fenced else text).encode())
    except ValueError as error:
        raise UsageError(f"the reply is no JSON: {shown(str(error))}", "Reply with one JSON object alone.") from error
    if not isinstance(reply, dict) or set(reply) - {"files", "notes"} or not isinstance(reply.get("files"), dict):
        raise UsageError("the reply is no object with `files` (and maybe `notes`)", "Reply in the form that was asked.")
    files = {name: _content(name, content) for name, content in reply["files"].items()}
    missing = [name for name in NEEDED if name not in files]
    if missing or not files.keys() & set(SCRIPTS):
        raise UsageError(
            f"the draft lacks {', '.join(missing) or ' or '.join(SCRIPTS)}", f"Give {', '.join(NEEDED)} and data.py."
        )
    notes = reply.get("notes", "")
    return DraftFiles(files=files, notes=notes[:MAX_NOTES] if isinstance(notes, str) else "")


def _content(name: str, content: object) -> str:
    if name not in ALLOWED:
        raise UsageError(f"the draft has a file {shown(name)}", f"Only these: {', '.join(sorted(ALLOWED))}.")
    if not isinstance(content, str):
        raise UsageError(f"{name} is no text", "Give each file as one string.")
    try:
        size = len(content.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"{name} holds characters that cannot be stored", "Use plain UTF-8.") from error
    if size > MAX_FILE_BYTES or "\0" in content:
        raise UsageError(f"{name} has {size} bytes", f"At most {MAX_FILE_BYTES}, and no NUL.")
    return content
