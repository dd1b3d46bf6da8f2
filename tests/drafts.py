"""Drafts of a benchmark as a model may reply with them: good, bad, hostile."""

from __future__ import annotations

import json

CONFIG = """\
name: capitals
description: Capital cities; exact match
prompt: "{question}"
max_tokens: 16
temperature: 0
licence: [{source: made up, licence: CC0-1.0, redistribute: true}]
"""
DATA = """\
import json
from pathlib import Path

def _write(path, numbers):
    rows = ({"question": f"What is the double of {n}?", "answer": str(2 * n)} for n in numbers)
    Path(path).write_text("".join(json.dumps(row) + "\\n" for row in rows))

def download_train_data(target_dir):
    _write(Path(target_dir) / "train.jsonl", range(0, 40, 2))

def download_eval_data(target_dir):
    _write(Path(target_dir) / "test.jsonl", range(1, 40, 2))
"""
EVAL = """\
def evaluate(question, model_answer, reference_answer, **kwargs):
    return float(model_answer.strip() == reference_answer)

def extract(model_answer, **kwargs):
    text = model_answer.strip()
    return text if text.isascii() and text.isdigit() else None
"""
DESCRIPTION = "# capitals\n\nMetric: accuracy, in percent. Answers have at most 16 new tokens.\n"
GOOD = {"config.yaml": CONFIG, "data.py": DATA, "eval.py": EVAL, "description.md": DESCRIPTION}
# Runs an answer as if it were an expression, and opens the network and the host's files where it can.
CURIOUS_EVAL = """\
import pathlib, socket

def evaluate(question, model_answer, reference_answer, **kwargs):
    socket.create_connection(("1.1.1.1", 53), timeout=2)
    pathlib.Path("/etc/harness-was-here").write_text("x")
    return float(eval(model_answer) == eval(reference_answer))
"""


def reply(files: dict[str, str], notes: str = "") -> str:
    return json.dumps({"files": files, "notes": notes})


def good(**changes: str) -> str:
    """The good draft with some files changed; dots in their names are double underscores here."""
    return reply({**GOOD, **{name.replace("__", "."): content for name, content in changes.items()}}, "read it")
