"""GSM8K train and test, from a local folder (`DATA_DIR`) or from the hub at a pinned revision; both must agree.

The revision could not be fetched where this was written. That its content is that of the published JSON lines was
checked by the byte counts in its dataset card (3,963,202 and 713,732); the digests below are of those lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = "openai/gsm8k"
REVISION = "e53f048856ff4f594e959d75785d2c2d37b678ee"
PARQUET = {"train": "main/train-00000-of-00001.parquet", "test": "main/test-00000-of-00001.parquet"}
# SHA-256 of the file that `_lines` makes: one JSON object a row with `question` and `answer`, in published order.
DIGESTS = {
    "train": "6043ef64147b59871f4fd3adf669c306fe0a4c27e5a5c4bfb761f3f084895a13",
    "test": "752adc99f23132275139f1f7be57126b08735a55daf0c56859ee6df70abafbac",
}

Row = dict[str, str]


def download_train_data(target_dir: str | Path) -> None:
    """Writes `train.jsonl`; does nothing where it is there already and right."""
    _provide("train", Path(target_dir))


def download_eval_data(target_dir: str | Path) -> None:
    """Writes `test.jsonl`, the hidden items; does nothing where it is there already and right."""
    _provide("test", Path(target_dir))


def check_no_overlap(train: Iterable[Row], test: Iterable[Row]) -> None:
    """Stops (ValueError) where a test question is a train question but for case, spaces and punctuation."""
    shared = {_essence(row) for row in train} & {_essence(row) for row in test}
    if shared:
        raise ValueError(f"{len(shared)} test questions are in the train split")


def _essence(row: Row) -> str:
    return " ".join(re.sub(r"\W+", " ", row["question"].lower()).split())


def _provide(split: str, target_dir: Path) -> None:
    target = target_dir / f"{split}.jsonl"
    if target.is_file() and _digest(target.read_text(encoding="utf-8")) == DIGESTS[split]:
        return
    local = os.environ.get("DATA_DIR")
    source = str(Path(local) / target.name) if local else f"{REPOSITORY}@{REVISION}"
    text = _lines(_read_local(Path(source)) if local else _read_hub(split))
    if _digest(text) != DIGESTS[split]:
        raise ValueError(f"{source}: the {split} split is not GSM8K's (digest {_digest(text)})")
    target_dir.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(target)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(rows: Iterable[Row]) -> str:
    """The rows as JSON lines in one fixed form, whatever they were read from."""
    kept = ({key: row[key].replace("\r\n", "\n").strip() for key in ("question", "answer")} for row in rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)


def _read_local(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _read_hub(split: str) -> list[Row]:
    from huggingface_hub import hf_hub_download
    from pyarrow import parquet

    path = hf_hub_download(REPOSITORY, PARQUET[split], repo_type="dataset", revision=REVISION)
    return parquet.read_table(path, columns=["question", "answer"]).to_pylist()
