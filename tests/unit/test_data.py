"""Preparing data: train and hidden items never meet, and nothing half-done is left."""

import json
import stat
from pathlib import Path

import pytest

from harness.domain.specs import Benchmark, BenchmarkConfig
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.runner.data import Fetch, prepare_data


def quiet(_: str) -> None:
    """Says nothing."""


def write(path: Path, questions: list[str]) -> None:
    path.write_text("".join(json.dumps({"question": q, "answer": "1"}) + "\n" for q in questions))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "data.py").write_text("")
    return Benchmark(id="bench", path=folder, digest="d1", config=BenchmarkConfig(name="bench"))


class FakeFetcher:
    """Writes the asked-for file; counts its calls."""

    def __init__(self, train: list[str], hidden: list[str]) -> None:
        self.questions = {"download_train_data": ("train.jsonl", train), "download_eval_data": ("test.jsonl", hidden)}
        self.calls: list[Fetch] = []

    def __call__(self, call: Fetch) -> None:
        self.calls.append(call)
        name, questions = self.questions[call.function]
        write(call.target / name, questions)


def test_hidden_items_are_kept_apart_and_private(home: Home, benchmark: Benchmark) -> None:
    data = prepare_data(benchmark, None, home, FakeFetcher(["a", "b"], ["c"]), quiet)
    assert (data.train_items, data.eval_items) == (2, 1)
    hidden = home.path / data.eval_path
    assert stat.S_IMODE(hidden.stat().st_mode) == 0o700
    assert not list((home.path / data.train_path).glob("test*"))


def test_prepared_data_is_not_fetched_again(home: Home, benchmark: Benchmark) -> None:
    fetcher = FakeFetcher(["a"], ["c"])
    first = prepare_data(benchmark, None, home, fetcher, quiet)
    assert prepare_data(benchmark, None, home, fetcher, quiet) == first
    assert len(fetcher.calls) == 2


def test_overlap_is_refused_whatever_the_spacing(home: Home, benchmark: Benchmark) -> None:
    with pytest.raises(UsageError, match="1 hidden questions are in the train data"):
        prepare_data(benchmark, None, home, FakeFetcher(["What  is 1+1?"], ["what is 1+1?"]), quiet)


def test_a_failed_fetch_leaves_nothing(home: Home, benchmark: Benchmark) -> None:
    def broken(call: Fetch) -> None:
        (call.target / "half").write_text("x")
        raise PrerequisiteError("no network")

    with pytest.raises(PrerequisiteError):
        prepare_data(benchmark, None, home, broken, quiet)
    assert not list((home.train / "bench").iterdir())


def test_repeated_hidden_items_are_refused(home: Home, benchmark: Benchmark) -> None:
    with pytest.raises(UsageError, match="different ids"):
        prepare_data(benchmark, None, home, FakeFetcher(["a"], ["c", "c"]), quiet)


def test_a_malformed_line_is_named(home: Home, benchmark: Benchmark) -> None:
    def fetch(call: Fetch) -> None:
        name = "train.jsonl" if call.function == "download_train_data" else "test.jsonl"
        (call.target / name).write_text('{"question": "a", "answer": "1"}\n[1]\n')

    with pytest.raises(UsageError, match="line 2"):
        prepare_data(benchmark, None, home, fetch, quiet)


def test_data_dir_must_hold_the_named_files(home: Home, benchmark: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes no --data-dir"):
        prepare_data(benchmark, tmp_path, home, FakeFetcher(["a"], ["c"]), quiet)
    config = BenchmarkConfig(name="bench", data_files=("train.jsonl",))
    with pytest.raises(UsageError, match=r"lacks train\.jsonl"):
        prepare_data(benchmark.model_copy(update={"config": config}), tmp_path, home, FakeFetcher(["a"], ["c"]), quiet)


def test_of_a_shipped_folder_the_named_files_alone_are_taken(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").unlink()
    shipped = benchmark.path / "data"
    shipped.mkdir()
    write(shipped / "train.jsonl", ["a"])
    write(shipped / "test.jsonl", ["c"])
    write(shipped / "answers.jsonl", ["c"])
    data = prepare_data(benchmark, None, home, FakeFetcher([], []), quiet)
    assert [path.name for path in (home.path / data.train_path).iterdir()] == ["train.jsonl"]
