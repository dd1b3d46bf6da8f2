"""BIG-Bench-Hard (Suzgun et al. 2022, arXiv:2210.09261), half of each task's items for training and half hidden.

The task files come from a local folder (`DATA_DIR`, any of the 27) or from GitHub at a pinned commit (all of them);
either way each must have its digest. The download could not be tried where this was written; that the digests are those
of the commit was checked against a clone of the repository.

BIG-Bench-Hard has no train split, so an item's half is decided by the rank of a hash of its question within its task.
Left out are questions that come twice with different answers, repeats, and items whose answer is none of their options
(three of them, torn at commas by the source). The canary string of the files goes nowhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tasks import COMMIT, FORMS, TASKS

URL = "https://raw.githubusercontent.com/suzgunmirac/BIG-Bench-Hard/{commit}/bbh/{task}.json"
TIMEOUT_S = 60
MAX_BYTES = 2**20
CANARY = "canary GUID"

Row = dict[str, str]


def download_train_data(target_dir: str | Path) -> None:
    """Writes `train.jsonl`: the public half of each task."""
    _write(Path(target_dir) / "train.jsonl", [row for rows in _tasks() for row in _halves(rows)[0]])


def download_eval_data(target_dir: str | Path) -> None:
    """Writes `test.jsonl`: the hidden half of each task."""
    _write(Path(target_dir) / "test.jsonl", [row for rows in _tasks() for row in _halves(rows)[1]])


def _tasks() -> Iterator[list[Row]]:
    """The items of each task that is there, in the order of the tasks' names."""
    for task, content in _files():
        if hashlib.sha256(content).hexdigest() != TASKS[task].sha256:
            raise ValueError(f"{task}.json is not the file of BIG-Bench-Hard at {COMMIT[:12]}")
        yield _rows(task, json.loads(content)["examples"])


def _files() -> Iterator[tuple[str, bytes]]:
    local = os.environ.get("DATA_DIR")
    if not local:
        for task in TASKS:
            yield task, _download(URL.format(commit=COMMIT, task=task))
        return
    found = sorted(Path(local).glob("*.json"))
    unknown = [path.name for path in found if path.stem not in TASKS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} in {local} is none of BIG-Bench-Hard's 27 task files")
    for path in found:
        yield path.stem, path.read_bytes()


def _download(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:
        return reply.read(MAX_BYTES)


def _rows(task: str, examples: list[Row]) -> list[Row]:
    """The usable items of a task, each question once."""
    answers: dict[str, set[str]] = {}
    for example in examples:
        answers.setdefault(example["input"], set()).add(example["target"])
    return [
        _row(task, question, targets.pop())
        for question, targets in answers.items()
        if len(targets) == 1 and _is_answerable(task, question, *targets)
    ]


def _is_answerable(task: str, question: str, target: str) -> bool:
    """Whether the right answer of a multiple choice is one of its options."""
    return TASKS[task].form != "choice" or (
        re.fullmatch(r"\([A-Z]\)", target) is not None and f"\n{target} " in question
    )


def _row(task: str, question: str, target: str) -> Row:
    form = TASKS[task].form
    return {
        "id": f"{task}-{_rank(task, question)[:12]}",
        "question": f"{TASKS[task].what}\n\n{question}\n\n{FORMS[form]}",
        "answer": target,
        "task": task,
        "form": form,
    }


def _rank(task: str, question: str) -> str:
    return hashlib.sha256(f"smith-bbh\0{task}\0{question}".encode()).hexdigest()


def _halves(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Train and hidden items of one task; the ids are hashes, so their order is the rank."""
    ranked = sorted(rows, key=lambda row: row["id"])
    return ranked[: len(ranked) // 2], ranked[len(ranked) // 2 :]


def _write(path: Path, rows: list[Row]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if CANARY in text:
        raise ValueError(f"the canary string is in {path.name}: change data.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
