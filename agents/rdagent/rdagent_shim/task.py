"""What RD-Agent's LLM is told of the task: upstream's prompts name neither the benchmark's rules nor the limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def task_text(environment: Mapping[str, str]) -> str:
    """The prompt that every agent gets, then the instructions, which others read by themselves."""
    names = [environment.get("PROMPT_FILE"), f"{environment.get('WORKSPACE', '')}/instructions.md"]
    if environment.get("CONTINUATION", "0") != "0":
        names.append(environment.get("CONTINUE_FILE"))
    files = [Path(name) for name in names if name]
    return "\n\n".join(file.read_text(encoding="utf-8").strip() for file in files if file.is_file())


def with_task(messages: list[dict[str, Any]], task: str) -> list[dict[str, Any]]:
    """Copies of `messages` with the task at the end of the first."""
    first, *rest = messages
    return [{**first, "content": f"{first['content']}\n\n{task}".rstrip()}, *rest]
