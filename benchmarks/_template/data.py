"""Train and hidden items of this benchmark. Runs in a container with network and the target folder, nothing else.

Replace the sample: fetch your data here, at a fixed revision, and check its digest. It must come out the same again.
If there is nothing to hide yet, leave `download_eval_data` out: then a part of the train items is hidden by hash.
"""

from __future__ import annotations

import json
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample"


def download_train_data(target_dir: str | Path) -> None:
    """Writes `train.jsonl`: what the agent sees, one object a line with `question` and `answer`."""
    _write(Path(target_dir) / "train.jsonl", "train.tsv")


def download_eval_data(target_dir: str | Path) -> None:
    """Writes `test.jsonl`: the hidden items. None of their questions may be a train question."""
    _write(Path(target_dir) / "test.jsonl", "hidden.tsv")


def _write(path: Path, name: str) -> None:
    pairs = (line.split("\t") for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines())
    rows = ({"question": f"What is the capital of {country}?", "answer": city} for country, city in pairs)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
