"""The trajectory: one JSON object a line, beside the pickles that upstream keeps and nobody should load."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Of one training's output; the whole of it went to RD-Agent.
OUTPUT_CHARACTERS = 20_000


def append(folder: str, kind: str, **fields: Any) -> None:
    """Adds a line with the time, `kind` and `fields` to `rdagent.jsonl` in `folder`, if there is one."""
    if not folder:
        return
    line = json.dumps({"time": datetime.now(UTC).isoformat(), "kind": kind, **fields}, ensure_ascii=False, default=str)
    with (Path(folder) / "rdagent.jsonl").open("a", encoding="utf-8", errors="replace") as file:
        file.write(line + "\n")


def ends(text: str, limit: int = OUTPUT_CHARACTERS) -> str:
    """`text`, or its first and last halves of `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
