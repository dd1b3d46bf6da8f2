"""HumanEval's two halves, from a local folder (`DATA_DIR`) or from its repository at a pinned commit."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import urllib.request
from pathlib import Path

FILE = "HumanEval.jsonl.gz"
COMMIT = "6d43fb980f9fee3c892a914eda09951f772ad10d"
URL = f"https://raw.githubusercontent.com/openai/human-eval/{COMMIT}/data/{FILE}"
DIGEST = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
N_PROBLEMS = 164
# SHA-256 of what is made of it.
DIGESTS = {
    "train": "979dcc79680a71efc12dbee42aa3dcfd8d2d112a43cf66a4bcc536c9f83f011e",
    "test": "ee4f50225054eaf98e08afc18d23a3537598e1d5a2e07f59e001629ca6fd06c8",
}
# The published division: the first half is for training, the last half is hidden.
SPLITS = {"train": slice(0, 82), "test": slice(82, N_PROBLEMS)}
TIMEOUT_S = 120

Row = dict[str, str]


def download_train_data(target_dir: str | Path) -> None:
    """Writes `train.jsonl`: prompts, solutions and tests of the first half; does nothing where it is right already."""
    _provide("train", Path(target_dir))


def download_eval_data(target_dir: str | Path) -> None:
    """Writes `test.jsonl`, the hidden half; does nothing where it is right already."""
    _provide("test", Path(target_dir))


def _provide(split: str, target_dir: Path) -> None:
    target = target_dir / f"{split}.jsonl"
    if target.is_file() and _digest(target.read_bytes()) == DIGESTS[split]:
        return
    lines = "".join(json.dumps(_item(row), ensure_ascii=False) + "\n" for row in _rows()[SPLITS[split]])
    if _digest(lines.encode()) != DIGESTS[split]:
        raise ValueError(f"the {split} split is not as it was published (digest {_digest(lines.encode())})")
    target_dir.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    unfinished.write_text(lines, encoding="utf-8")
    unfinished.replace(target)


def _item(row: Row) -> Row:
    return {
        "id": row["task_id"],
        "question": row["prompt"],
        "answer": row["canonical_solution"],
        "entry_point": row["entry_point"],
        "test": row["test"],
    }


def _rows() -> list[Row]:
    local = os.environ.get("DATA_DIR")
    source = str(Path(local) / FILE) if local else URL
    content = Path(source).read_bytes() if local else _fetched()
    if _digest(content) != DIGEST:
        raise ValueError(f"{source} is not HumanEval's file (digest {_digest(content)})")
    rows = [json.loads(line) for line in gzip.decompress(content).decode().splitlines() if line.strip()]
    if len(rows) != N_PROBLEMS:
        raise ValueError(f"{source} has {len(rows)} problems, not {N_PROBLEMS}")
    return rows


def _fetched() -> bytes:
    with urllib.request.urlopen(URL, timeout=TIMEOUT_S) as reply:
        return reply.read()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
