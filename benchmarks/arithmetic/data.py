"""Two-operand sums, generated from a seed: train and hidden items never share a pair of operands, in either order."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

SEED = 20_261_130
OPERANDS = range(100)
HIDDEN_ITEMS = 600


def _rank(kind: str, first: int, second: int) -> str:
    """A seeded order of pairs that is the same on every machine and Python version."""
    return hashlib.sha256(f"{SEED} {kind} {first} {second}".encode()).hexdigest()


def hidden_pairs() -> list[tuple[int, int]]:
    """The operands of the hidden items: each unordered pair at most once, in an order drawn for it."""
    unordered = [(a, b) for a in OPERANDS for b in OPERANDS if a <= b]
    chosen = sorted(unordered, key=lambda pair: _rank("hidden", *pair))[:HIDDEN_ITEMS]
    return [(b, a) if int(_rank("order", a, b), 16) % 2 else (a, b) for a, b in chosen]


def train_pairs() -> list[tuple[int, int]]:
    """Every other pair, both ways round, shuffled."""
    hidden = {frozenset(pair) for pair in hidden_pairs()}
    pairs = [(a, b) for a in OPERANDS for b in OPERANDS if frozenset((a, b)) not in hidden]
    return sorted(pairs, key=lambda pair: _rank("train", *pair))


def item(first: int, second: int) -> dict[str, str]:
    """The item that asks for `first` + `second`."""
    return {"id": f"{first}+{second}", "question": f"{first}+{second}=", "answer": str(first + second)}


def check_no_overlap(train: list[tuple[int, int]], hidden: list[tuple[int, int]]) -> None:
    """Stops (ValueError) where a hidden pair of operands, in either order, is a train pair."""
    shared = {frozenset(pair) for pair in train} & {frozenset(pair) for pair in hidden}
    if shared:
        raise ValueError(f"{len(shared)} hidden pairs of operands are in the train items: change data.py")


def download_train_data(target_dir: str | Path) -> None:
    """Writes `train.jsonl`; does nothing where it is there already and right."""
    _write(Path(target_dir) / "train.jsonl", train_pairs())


def download_eval_data(target_dir: str | Path) -> None:
    """Writes `test.jsonl`, the hidden items; does nothing where it is there already and right."""
    check_no_overlap(train_pairs(), hidden_pairs())
    _write(Path(target_dir) / "test.jsonl", hidden_pairs())


def _write(path: Path, pairs: list[tuple[int, int]]) -> None:
    text = "".join(json.dumps(item(*pair)) + "\n" for pair in pairs)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
