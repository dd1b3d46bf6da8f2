"""Benchmark data: fetched by the benchmark's own code in a container, checked, divided into what agents see and not."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.domain.base import canonical_hash
from harness.domain.items import items_hash, normal_question
from harness.domain.specs import Benchmark, DataRef
from harness.errors import PrerequisiteError, UsageError
from harness.home import PRIVATE_MODE, Home
from harness.runner.data_items import divide_file, read_items
from harness.runner.data_sources import (
    EVAL_FILE,
    SHIPPED,
    TRAIN_FILE,
    Fetch,
    Fetcher,
    Source,
    eval_source,
    train_source,
)
from harness.runner.resources import Say, freeze, locked, remove_read_only, staged

# Raised when a benchmark's data would come out in another way than what earlier versions left in the store.
STORE_VERSION = 3
# Shorter questions come up in any text.
SHORTEST_LEAK = 20


@dataclass(frozen=True)
class _Order:
    """What is to be prepared, and how its scripts are run."""

    benchmark: Benchmark
    data_dir: Path | None
    fetch: Fetcher
    say: Say


def prepare_data(benchmark: Benchmark, data_dir: Path | None, home: Home, fetch: Fetcher, say: Say) -> DataRef:
    """The benchmark's data in the store: train items, and hidden items where only the grader reads.

    Where a benchmark has train data only, a part of it is hidden (`harness.domain.division`).

    Raises:
        UsageError: the folder provides no data, or its items are malformed, overlap, are exposed, cannot be divided.
        PrerequisiteError: the data script failed.
    """
    check_data_dir(benchmark, data_dir)
    key = _version_of(benchmark) + canonical_hash(_content(benchmark, data_dir))[:6]
    with locked(home.cache / "data"):
        receipt = home.cache / "data" / f"{benchmark.id}-{key}.json"
        if receipt.is_file():
            known = DataRef.model_validate_json(receipt.read_text())
            if (home.path / known.train_path).is_dir() and (home.path / known.eval_path).is_dir():
                return known
        train, hidden = home.train / benchmark.id / key, home.eval / benchmark.id / key
        is_divided = _filled(_Order(benchmark, data_dir, fetch, say), train, hidden)
        data = _verified(benchmark, train, hidden, home).model_copy(update={"is_divided": is_divided})
        receipt.write_text(data.model_dump_json())
        return data


def prepared_data(benchmark: Benchmark, home: Home) -> DataRef | None:
    """What a run of this benchmark, as its folder is now, was last given; None before its data was ever prepared."""
    receipts = (home.cache / "data").glob(f"{glob.escape(benchmark.id)}-{_version_of(benchmark)}*.json")
    newest = max(receipts, key=lambda path: path.stat().st_mtime_ns, default=None)
    return DataRef.model_validate_json(newest.read_text()) if newest else None


def _version_of(benchmark: Benchmark) -> str:
    """What a folder of the store begins with: other contents of the benchmark's folder, other data."""
    return canonical_hash([benchmark.digest, STORE_VERSION])[:8]


def check_data_dir(benchmark: Benchmark, data_dir: Path | None) -> None:
    """Whether `--data-dir` fits the benchmark.

    Raises:
        UsageError: it lacks a file, or the benchmark takes none.
    """
    if data_dir is None:
        return
    if not benchmark.config.data_files:
        raise UsageError(
            f"benchmark {benchmark.id} takes no --data-dir: it makes or ships its own data", "Leave it out."
        )
    missing = [pattern for pattern in benchmark.config.data_files if not _fitting(data_dir, pattern)]
    if missing:
        raise UsageError(f"--data-dir {data_dir} lacks {', '.join(missing)}", "Name the folder that holds them.")


def _fitting(data_dir: Path, pattern: str) -> list[Path]:
    """The files right in `data_dir` whose name fits."""
    if not data_dir.is_dir():
        return []
    names = (path for path in data_dir.iterdir() if fnmatch.fnmatchcase(path.name, pattern))
    return sorted(path for path in names if path.is_file())


def _filled(order: _Order, train: Path, hidden: Path) -> bool:
    """Fills both folders; whether train data had to be divided for it."""
    source = eval_source(order.benchmark)
    if source is not None:
        _fill(order, train, train_source(order.benchmark))
        _fill(order, hidden, source)
        return False
    # What a process that died in here left: the halves of two divisions must not be mixed.
    for folder in (train, hidden):
        if folder.exists():
            remove_read_only(folder)
    return _fill_both(order, train, hidden)


def _fill(order: _Order, target: Path, source: Source) -> None:
    if (target / source.file).is_file():
        return
    order.say(f"preparing {source.file} of {order.benchmark.id}")
    with staged(target) as stage:
        _fetch(order, source, stage)
        if source.file == TRAIN_FILE and (stage / EVAL_FILE).exists():
            raise UsageError(
                f"benchmark {order.benchmark.id} puts {EVAL_FILE} among its train data, which agents see",
                f"{source.function} must not write it.",
            )
        freeze(stage)


def _fill_both(order: _Order, train: Path, hidden: Path) -> bool:
    """From train data alone. All of it lies below `hidden`, which no agent sees, until its public part is known.

    A script that has written hidden items as well is taken at its word: then nothing is divided.
    """
    source = train_source(order.benchmark)
    order.say(f"preparing {TRAIN_FILE} of {order.benchmark.id}; it has no hidden items of its own")
    _make_private(hidden.parent)
    with staged(hidden) as stage, staged(train) as public:
        whole = stage / "whole"
        whole.mkdir()
        _fetch(order, source, whole)
        has_hidden = (whole / EVAL_FILE).is_file()
        if has_hidden:
            (whole / EVAL_FILE).rename(stage / EVAL_FILE)
            (whole / TRAIN_FILE).rename(public / TRAIN_FILE)
        else:
            share = order.benchmark.config.hidden_share
            divide_file(whole / TRAIN_FILE, public / TRAIN_FILE, stage / EVAL_FILE, share)
        # Whatever else the script has left may hold the items, too.
        shutil.rmtree(whole)
        freeze(stage)
        freeze(public)
    return not has_hidden


def _fetch(order: _Order, source: Source, target: Path) -> None:
    benchmark = order.benchmark
    if source.script is not None:
        call = Fetch(
            benchmark=benchmark,
            script=source.script,
            function=source.function,
            target=target,
            data_dir=order.data_dir,
        )
        order.fetch(call)
    elif source.shipped is not None:
        # This file alone: whatever else lies beside it may be hidden from the agent.
        shutil.copyfile(source.shipped, target / source.file)
    if not (target / source.file).is_file():
        raise UsageError(
            f"benchmark {benchmark.id} provides no {source.file}",
            f"{source.script} must write it in {source.function}(target_dir).",
        )


def _make_private(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(PRIVATE_MODE)


def _verified(benchmark: Benchmark, train: Path, hidden: Path, home: Home) -> DataRef:
    for folder in (hidden.parent, hidden):
        folder.chmod(PRIVATE_MODE)
    train_items, eval_items = read_items(train / TRAIN_FILE), read_items(hidden / EVAL_FILE)
    questions = {normal_question(item.question) for item in eval_items}
    overlap = {normal_question(item.question) for item in train_items} & questions
    if overlap:
        raise UsageError(
            f"benchmark {benchmark.id}: {len(overlap)} hidden questions are in the train data",
            "Fix its data.py: train and hidden items must not overlap.",
        )
    _check_exposed(benchmark, questions)
    return DataRef(
        train_path=train.relative_to(home.path),
        eval_path=hidden.relative_to(home.path),
        eval_hash=items_hash(eval_items),
        train_items=len(train_items),
        eval_items=len(eval_items),
    )


def verify_data(data: DataRef, home: Home) -> None:
    """Reads all stored items again.

    Raises:
        PrerequisiteError: they are not what they were when they were stored.
    """
    train, hidden = home.path / data.train_path, home.path / data.eval_path
    try:
        train_items, eval_items = read_items(train / TRAIN_FILE), read_items(hidden / EVAL_FILE)
        is_same = items_hash(eval_items) == data.eval_hash and len(train_items) == data.train_items
    except (UsageError, OSError):
        is_same = False
    if not is_same:
        raise PrerequisiteError(
            f"the stored data in {train} and {hidden} is not what was stored: files have changed",
            f"Remove both (`chmod -R u+w {train} {hidden} && rm -r {train} {hidden}`), then run the command again.",
        )


def _check_exposed(benchmark: Benchmark, hidden_questions: set[str]) -> None:
    for name in benchmark.config.expose_files:
        text = normal_question((benchmark.path / name).read_text(encoding="utf-8", errors="replace"))
        is_leak = any(question in text for question in hidden_questions if len(question) >= SHORTEST_LEAK)
        if is_leak or Path(name).parts[0] == SHIPPED:
            raise UsageError(
                f"benchmark {benchmark.id} exposes {name}, which holds or may hold hidden items",
                "Take it out of expose_files.",
            )


def _content(benchmark: Benchmark, data_dir: Path | None) -> list[list[str]]:
    if data_dir is None:
        return []
    files = [path for pattern in benchmark.config.data_files for path in _fitting(data_dir, pattern)]
    try:
        return [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]
    except OSError as error:
        raise PrerequisiteError(f"could not read {data_dir}: {error}") from error
