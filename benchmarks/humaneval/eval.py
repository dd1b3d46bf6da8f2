"""HumanEval: the program in an answer, and the problem's own tests of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

FENCE = re.compile(r"^([ \t]*)```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.M | re.S)
# How a line at the margin begins that belongs to a module, or to a function's body, and is no talk about it.
MODULE = re.compile(r"(?:def|class|async|from|import)\b|@")
STATEMENT = re.compile(
    r"(?:return|for|while|if|with|try|raise|yield|pass|global|nonlocal|def|import|from|assert)\b"
    r"|[A-Za-z_][\w.\[\]'\", ]*(?: *: *[\w\[\], .]+)? *(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)|[A-Za-z_][\w.]*\("
)
GOES_ON = re.compile(r"(?:else|elif|except|finally)\b|[#)\]}]")
INDENT = "    "
MAX_LOOKED_AT = 200


def program(question: str, model_answer: str, *, entry_point: str, **extra: object) -> str | None:
    """The problem's prompt with the answer behind it: a whole function replaces the prompt's, a body completes it."""
    code = extract(model_answer, entry_point=entry_point)
    return None if code is None else f"{question.rstrip()}\n{code}\n"


def check(candidate: Any, question: str, reference: str, *, entry_point: str, test: str, **extra: object) -> None:
    """Runs the problem's tests; they raise where the program is wrong."""
    namespace: dict[str, Any] = {}
    # Tests may call what the prompt defines: helpers, and the function, of which the prompt has a docstring only.
    exec(question, namespace)
    namespace[entry_point] = candidate.function(entry_point)
    exec(test, namespace)
    namespace["check"](namespace[entry_point])


def extract(model_answer: str, *, entry_point: str, **extra: object) -> str | None:
    """The code in an answer: of its fenced blocks the one with the function, else the text; None if there is none."""
    defines = re.compile(rf"^(?:async )?def {re.escape(entry_point)}\b", re.M)
    blocks = [_block(indent, code, defines) for indent, code in FENCE.findall(model_answer)]
    text = next((block for block in blocks if defines.search(block)), blocks[0] if blocks else model_answer)
    found = defines.search(text)
    if found is None:
        return _body(text)
    return text if blocks else _module(text, found.end())


def _block(indent: str, code: str, defines: re.Pattern[str]) -> str:
    """The code of a fenced block, without the fence's own indentation (as in a list) where the function has it too."""
    dedented = re.sub(rf"^[ \t]{{0,{len(indent)}}}", "", code, flags=re.M)
    return dedented if defines.search(dedented) else code


def _module(text: str, function_at: int) -> str:
    """From the first line that can begin a module to the first line after the function that cannot belong to one."""
    kept: list[str] = []
    place = 0
    for line in text.splitlines(keepends=True):
        place += len(line)
        if not kept and not MODULE.match(line):
            continue
        if place > function_at + 1 and line[:1].strip() and not _is_code(line):
            break
        kept.append(line)
    return "".join(kept)


def _is_code(line: str) -> bool:
    return bool(MODULE.match(line) or _begins(line) or GOES_ON.match(line))


def _body(text: str) -> str | None:
    """The lines of a function's body as they must stand in it, whether they have kept their indentation or not."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.strip() and (not line[0].strip() or _begins(line))), None)
    if start is None:
        return None
    first, rest = lines[start], lines[start + 1 :]
    if first[0].isspace():
        return "\n".join([first, *_until(rest, lambda line: False)])
    if _has_first_lost_its_own(first, rest):
        return "\n".join([INDENT + first, *_until(rest, lambda line: False)])
    kept = [first, *_until(rest, _is_code)]
    return "\n".join(INDENT + line if line.strip() else line for line in kept)


def _begins(line: str) -> bool:
    # Its beginning only: a line may be made to take a pattern ages.
    return bool(STATEMENT.match(line[:MAX_LOOKED_AT]))


def _has_first_lost_its_own(first: str, rest: list[str]) -> bool:
    """Whether only the first line stands at the margin (a stripped answer), not the whole body."""
    following = next((line for line in rest if line.strip()), "")
    depth = len(following) - len(following.lstrip())
    return depth > len(INDENT) if first.rstrip().endswith(":") else depth >= len(INDENT)


def _until(lines: list[str], belongs: Callable[[str], bool]) -> list[str]:
    """The lines before the first one at the margin that does not belong."""
    end = next((k for k, line in enumerate(lines) if line[:1].strip() and not belongs(line)), len(lines))
    return lines[:end]
