"""What OpenCompass said of the prepared answers, and where `per_sample` says something else.

`python tests/opencompass_golden.py REPORT` takes the report of `opencompass_pipeline.py` and writes it down:
verdicts to tests/data, differences as a table to docs/opencompass.md.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "tests" / "data" / "gsm8k_answers.jsonl"
GOLDEN = ROOT / "tests" / "data" / "gsm8k_opencompass.json"
DOCUMENT = ROOT / "docs" / "opencompass.md"
BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"

Row = dict[str, str]


def prepared() -> list[Row]:
    """The prepared answers: id, kind, question, reference, answer."""
    return [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]


def golden_of(report: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a report: versions, OpenCompass's own accuracy, and for each answer what was found and judged."""
    details = report["result"]["details"]
    return {
        "opencompass": report["opencompass"],
        "dataset": report["dataset"],
        "accuracy": report["result"]["accuracy"],
        "verdicts": {
            row["id"]: {"found": detail["pred"][0], "expected": detail["answer"][0], "right": detail["correct"][0]}
            for row, detail in zip(prepared(), details, strict=True)
        },
    }


def golden() -> dict[str, Any]:
    """What is kept of OpenCompass's verdicts."""
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def per_sample() -> ModuleType:
    """The eval.py of benchmark `gsm8k`."""
    spec = importlib.util.spec_from_file_location("gsm8k_eval", ROOT / "benchmarks" / "gsm8k" / "eval.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(verdicts: dict[str, Any]) -> str:
    """The prepared answers that OpenCompass and `per_sample` judge differently, as a table."""
    judge = per_sample()
    lines = [
        "| answer | reference | OpenCompass finds | | `per_sample` finds | |",
        "|---|---|---|---|---|---|",
    ]
    for row in prepared():
        theirs = verdicts[row["id"]]
        ours = bool(judge.evaluate(row["question"], row["answer"], row["reference"]))
        if ours != theirs["right"]:
            found = judge.extract(row["answer"])
            cells = [_code(row["answer"]), _code(judge.extract(row["reference"])), _code(theirs["found"])]
            lines.append("| " + " | ".join([*cells, _word(theirs["right"]), _code(found), _word(ours)]) + " |")
    return "\n".join(lines)


def _code(text: str | None) -> str:
    if text is None:
        return "nothing"
    shown = text.encode("unicode_escape").decode().replace("\\\\", "\\").replace("|", "\\|")
    return f"`{shown}`"


def _word(is_right: bool) -> str:
    return "right" if is_right else "wrong"


def main() -> None:
    """Writes verdicts and table."""
    report = json.loads(Path(sys.argv[1]).read_text().splitlines()[-1])
    kept = golden_of(report)
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table(kept['verdicts'])}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
