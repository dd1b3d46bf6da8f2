"""Checks of a benchmark's data, as the harness prepares it: in the data container, and twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.authoring.verdicts import Skipped
from harness.domain.items import Item, normal_question
from harness.domain.specs import Benchmark, DataRef
from harness.errors import UsageError
from harness.home import Home
from harness.runner.data import prepare_data
from harness.runner.data_items import read_items
from harness.runner.data_sources import EVAL_FILE, TRAIN_FILE, Fetcher

# Feedback and final items need one each; fewer than this tell nothing.
FEWEST_HIDDEN = 10


@dataclass(frozen=True)
class Prepared:
    """Data in a store of its own."""

    ref: DataRef
    home: Home

    @property
    def train(self) -> Sequence[Item]:
        return read_items(self.home.path / self.ref.train_path / TRAIN_FILE)

    @property
    def hidden(self) -> Sequence[Item]:
        return read_items(self.home.path / self.ref.eval_path / EVAL_FILE)

    def digests(self) -> tuple[str, str]:
        """Of the train and the hidden file."""
        files = (self.home.path / self.ref.train_path / TRAIN_FILE, self.home.path / self.ref.eval_path / EVAL_FILE)
        train, hidden = (hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
        return train, hidden


def prepare(benchmark: Benchmark, data_dir: Path | None, folder: Path, fetch: Fetcher) -> Prepared:
    """The benchmark's data in an empty store below `folder`.

    Raises:
        UsageError, PrerequisiteError: as `prepare_data`.
    """
    home = Home(folder)
    folder.mkdir(mode=0o700, parents=True)
    return Prepared(prepare_data(benchmark, data_dir, home, fetch, lambda _: None), home)


def division(benchmark: Benchmark, data: Prepared) -> str:
    """Train and hidden items do not meet, and there are enough of both."""
    train, hidden = data.train, data.hidden
    shared_ids = {item.id for item in train} & {item.id for item in hidden}
    if shared_ids:
        raise UsageError(
            f"{len(shared_ids)} ids are in both parts, e.g. {min(shared_ids)}", "Give each item an id of its own."
        )
    if len(hidden) < FEWEST_HIDDEN:
        raise UsageError(f"{len(hidden)} hidden items tell nothing", f"Have at least {FEWEST_HIDDEN}, better hundreds.")
    promised = benchmark.config.hidden_items
    # With patterns in data_files, how many there are depends on the files that were given.
    if promised not in (None, len(hidden)) and not any("*" in name for name in benchmark.config.data_files):
        raise UsageError(f"config.yaml tells {promised} hidden items, there are {len(hidden)}", "Correct hidden_items.")
    how = ", divided by hash of the question" if data.ref.is_divided else ""
    return f"{len(train)} train and {len(hidden)} hidden items without overlap{how}"


def examples(benchmark: Benchmark, data: Prepared) -> str | Skipped:
    """Worked examples of the prompt are in neither part."""
    shots = benchmark.config.few_shot
    if not shots:
        return Skipped(reason="the prompt has no worked examples")
    hidden = {normal_question(item.question) for item in data.hidden}
    leaked = [shot for shot in shots if normal_question(shot.question) in hidden]
    if leaked:
        raise UsageError(
            f"the worked example {leaked[0].question[:60]!r} is a hidden item", "Take one from the train items."
        )
    return f"{len(shots)} worked examples are no hidden items"


def cluster(benchmark: Benchmark, data: Prepared) -> str | Skipped:
    """The field of `cluster_by` is in every hidden item."""
    field = benchmark.config.cluster_by
    if field is None:
        return Skipped(reason="items are taken as independent (no cluster_by)")
    without = [item for item in data.hidden if field not in item.extra]
    if without:
        raise UsageError(f"hidden item {without[0].id} has no {field!r}", "cluster_by names a field of every item.")
    return f"{len({str(item.extra[field]) for item in data.hidden})} groups by {field}"


def again(data: Prepared, second: Prepared) -> str:
    """The data comes out the same."""
    for name, one, other in zip((TRAIN_FILE, EVAL_FILE), data.digests(), second.digests(), strict=True):
        if one != other:
            raise UsageError(
                f"{name} is another file the second time", "Fix the revision of what is downloaded, and every seed."
            )
    return "both files are the same the second time"
