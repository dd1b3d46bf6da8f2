"""Benchmark data: fetched by the benchmark's own code in a container, checked, divided into what agents see and not."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.domain.base import Frozen, canonical_hash
from harness.domain.items import Item, parse_item
from harness.domain.specs import Benchmark, DataRef
from harness.errors import PrerequisiteError, UsageError
from harness.home import PRIVATE_MODE, Home
from harness.runner.resources import Say, freeze, locked, staged

TRAIN_FILE, EVAL_FILE = "train.jsonl", "test.jsonl"
TRAIN_FUNCTION, EVAL_FUNCTION = "download_train_data", "download_eval_data"
MAX_LINE_BYTES = 8 * 2**20


class Fetch(Frozen):
    """One call of a benchmark's data script: which function of which file fills `target`."""

    benchmark: Benchmark
    script: str
    function: str
    target: Path
    data_dir: Path | None


Fetcher = Callable[[Fetch], None]


def prepare_data(benchmark: Benchmark, data_dir: Path | None, home: Home, fetch: Fetcher, say: Say) -> DataRef:
    """The benchmark's data in the store: train items, and hidden items where only the grader reads.

    Raises:
        UsageError: the folder provides no data, or its items are malformed or overlap.
        PrerequisiteError: the data script failed.
    """
    check_data_dir(benchmark, data_dir)
    key = canonical_hash([benchmark.digest, _content(benchmark, data_dir)])[:12]
    with locked(home.cache / "data"):
        receipt = home.cache / "data" / f"{benchmark.id}-{key}.json"
        if receipt.is_file():
            known = DataRef.model_validate_json(receipt.read_text())
            if (home.path / known.train_path).is_dir() and (home.path / known.eval_path).is_dir():
                return known
        train = home.train / benchmark.id / key
        hidden = home.eval / benchmark.id / key
        _fill(train, TRAIN_FILE, _call(benchmark, TRAIN_FUNCTION, train, data_dir), fetch, say)
        _fill(hidden, EVAL_FILE, _call(benchmark, EVAL_FUNCTION, hidden, data_dir), fetch, say)
        data = _verified(benchmark, train, hidden, home)
        receipt.write_text(data.model_dump_json())
        return data


def _call(benchmark: Benchmark, function: str, target: Path, data_dir: Path | None) -> Fetch:
    has_data_script = (benchmark.path / "data.py").is_file()
    script = "data.py" if function == EVAL_FUNCTION or has_data_script else "download_data.py"
    return Fetch(benchmark=benchmark, script=script, function=function, target=target, data_dir=data_dir)


def check_data_dir(benchmark: Benchmark, data_dir: Path | None) -> None:
    """Whether `--data-dir` fits the benchmark.

    Raises:
        UsageError: it lacks a file, or the benchmark takes none.
    """
    if data_dir is None:
        return
    missing = [name for name in benchmark.config.data_files if not (data_dir / name).is_file()]
    if not benchmark.config.data_files:
        raise UsageError(f"benchmark {benchmark.id} takes no --data-dir: it makes or ships its own data")
    if missing:
        raise UsageError(f"--data-dir {data_dir} lacks {', '.join(missing)}", "Name the folder that holds them.")


def _fill(target: Path, file: str, call: Fetch, fetch: Fetcher, say: Say) -> None:
    if (target / file).is_file():
        return
    say(f"preparing {file} of {call.benchmark.id}")
    with staged(target) as stage:
        shipped = call.benchmark.path / "data" / file
        if (call.benchmark.path / call.script).is_file():
            fetch(call.model_copy(update={"target": stage}))
        elif shipped.is_file():
            # This file alone: whatever else lies beside it may be hidden from the agent.
            shutil.copyfile(shipped, stage / file)
        if not (stage / file).is_file():
            raise UsageError(
                f"benchmark {call.benchmark.id} provides no {file}",
                f"Its {call.script} must write it in {call.function}(target_dir), or data/{file} must exist.",
            )
        freeze(stage)


def _verified(benchmark: Benchmark, train: Path, hidden: Path, home: Home) -> DataRef:
    for folder in (hidden.parent, hidden):
        folder.chmod(PRIVATE_MODE)
    train_items, eval_items = read_items(train / TRAIN_FILE), read_items(hidden / EVAL_FILE)
    overlap = {_normal(item.question) for item in train_items} & {_normal(item.question) for item in eval_items}
    if overlap:
        raise UsageError(
            f"benchmark {benchmark.id}: {len(overlap)} hidden questions are in the train data",
            "Fix its data.py: train and hidden items must not overlap.",
        )
    return DataRef(
        train_path=train.relative_to(home.path),
        eval_path=hidden.relative_to(home.path),
        eval_hash=canonical_hash(sorted([item.id, item.question, item.answer] for item in eval_items)),
        train_items=len(train_items),
        eval_items=len(eval_items),
    )


def read_items(path: Path) -> Sequence[Item]:
    """Items of a JSONL file with `question` and `answer`.

    Raises:
        UsageError: a line is no such record, an id comes twice, or the file is empty.
    """
    items: list[Item] = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                items.append(parse_item(json.loads(line[:MAX_LINE_BYTES])))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UsageError(f"{path.name} line {number} is no item: {error!r}") from error
    ids = {item.id for item in items}
    if not items:
        raise UsageError(f"{path.name} holds no items")
    if path.name == EVAL_FILE and len(ids) != len(items):
        raise UsageError(f"{path.name} holds {len(items)} items with {len(ids)} different ids", "Ids must be unique.")
    return items


def _normal(question: str) -> str:
    return " ".join(question.lower().split())


def _content(benchmark: Benchmark, data_dir: Path | None) -> list[str]:
    if data_dir is None:
        return []
    files = (data_dir / name for name in benchmark.config.data_files)
    try:
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    except OSError as error:
        raise PrerequisiteError(f"could not read {data_dir}: {error}") from error
