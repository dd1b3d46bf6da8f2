"""Preparing data: train and hidden items never meet, and nothing half-done is left."""

import json
import stat
from pathlib import Path

import pytest

from harness.domain.specs import Benchmark, BenchmarkConfig
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.runner.data import prepare_data
from harness.runner.data_sources import Fetch
from harness.runner.resources import remove_read_only

SCRIPT = "def download_train_data(target_dir): ...\ndef download_eval_data(target_dir): ...\n"
TRAIN_ONLY = "def download_train_data(target_dir): ...\n"


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
    (folder / "data.py").write_text(SCRIPT)
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


def questions(path: Path) -> set[str]:
    return {json.loads(line)["question"] for line in path.read_text().splitlines()}


def test_train_data_alone_is_divided(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").write_text(TRAIN_ONLY)
    asked = [f"question {number}" for number in range(40)]
    data = prepare_data(benchmark, None, home, FakeFetcher(asked, []), quiet)
    assert data.is_divided
    assert data.train_items + data.eval_items == 40
    public = questions(home.path / data.train_path / "train.jsonl")
    hidden = questions(home.path / data.eval_path / "test.jsonl")
    assert public | hidden == {*asked}
    assert not public & hidden
    assert 10 < len(hidden) < 30


def test_the_undivided_file_stays_nowhere(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").write_text(TRAIN_ONLY)
    seen: list[str] = []

    def fetch(call: Fetch) -> None:
        # While it is whole it lies where only the harness and the grader may look.
        assert call.target.is_relative_to(home.eval)
        assert stat.S_IMODE(home.eval.stat().st_mode) == 0o700
        write(call.target / "train.jsonl", [f"question {number}" for number in range(9)])
        (call.target / "raw.json").write_text("question 1")
        seen.append(str(call.target))

    data = prepare_data(benchmark, None, home, fetch, quiet)
    assert [path.name for path in (home.path / data.train_path).iterdir()] == ["train.jsonl"]
    assert [path.name for path in (home.path / data.eval_path).iterdir()] == ["test.jsonl"]
    assert not [path for path in home.train.rglob("*") if path.name.startswith(".")]
    assert len(seen) == 1


def test_a_published_script_without_hidden_data_is_divided(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").unlink()
    (benchmark.path / "download_data.py").write_text(TRAIN_ONLY)
    fetcher = FakeFetcher(["a", "b", "c"], [])
    assert prepare_data(benchmark, None, home, fetcher, quiet).is_divided
    assert [call.script for call in fetcher.calls] == ["download_data.py"]


def test_a_shipped_train_file_alone_is_divided(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").unlink()
    (benchmark.path / "data").mkdir()
    write(benchmark.path / "data" / "train.jsonl", ["a", "b", "b", "c", "c"])
    data = prepare_data(benchmark, None, home, FakeFetcher([], []), quiet)
    assert data.is_divided
    public = questions(home.path / data.train_path / "train.jsonl")
    assert public.isdisjoint(questions(home.path / data.eval_path / "test.jsonl"))


def test_hidden_items_that_a_train_script_writes_are_taken_as_they_are(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").write_text(TRAIN_ONLY)

    def fetch(call: Fetch) -> None:
        write(call.target / "train.jsonl", ["a", "b"])
        write(call.target / "test.jsonl", ["c"])

    data = prepare_data(benchmark, None, home, fetch, quiet)
    assert (data.is_divided, data.train_items, data.eval_items) == (False, 2, 1)
    assert [path.name for path in (home.path / data.train_path).iterdir()] == ["train.jsonl"]


def test_a_train_function_beside_an_eval_function_may_not_leave_hidden_items(home: Home, benchmark: Benchmark) -> None:
    def fetch(call: Fetch) -> None:
        write(call.target / "train.jsonl", ["a"])
        write(call.target / "test.jsonl", ["c"])

    with pytest.raises(UsageError, match="among its train data"):
        prepare_data(benchmark, None, home, fetch, quiet)
    assert not list((home.train / "bench").iterdir())


@pytest.mark.parametrize("asked", [["a"], ["same", "Same ", " SAME"]])
def test_what_cannot_be_divided_is_refused_and_leaves_nothing(
    home: Home, benchmark: Benchmark, asked: list[str]
) -> None:
    (benchmark.path / "data.py").write_text(TRAIN_ONLY)
    with pytest.raises(UsageError, match="cannot be divided"):
        prepare_data(benchmark, None, home, FakeFetcher(asked, []), quiet)
    assert not [*(home.train / "bench").iterdir(), *(home.eval / "bench").iterdir()]


def test_a_division_that_was_broken_off_is_done_anew(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").write_text(TRAIN_ONLY)
    asked = [f"question {number}" for number in range(9)]
    first = prepare_data(benchmark, None, home, FakeFetcher(asked, []), quiet)
    # It died between the two renames, and what it fetched is another thing by now.
    next((home.cache / "data").glob("*.json")).unlink()
    remove_read_only(home.path / first.eval_path)
    second = prepare_data(benchmark, None, home, FakeFetcher([*asked, "more"], []), quiet)
    assert second.train_items + second.eval_items == 10


def test_no_source_of_train_items_is_told(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").write_text("")
    with pytest.raises(UsageError, match=r"provides no train\.jsonl") as caught:
        prepare_data(benchmark, None, home, FakeFetcher([], []), quiet)
    assert "download_train_data" in caught.value.fix


def test_a_script_that_is_no_python_is_named(home: Home, benchmark: Benchmark) -> None:
    (benchmark.path / "data.py").write_text("def download(:")
    with pytest.raises(UsageError, match=r"data\.py is no valid Python"):
        prepare_data(benchmark, None, home, FakeFetcher([], []), quiet)


@pytest.mark.parametrize("name", ["notes.txt", "data/notes.txt"])
def test_exposed_files_may_hold_nothing_hidden(home: Home, benchmark: Benchmark, name: str) -> None:
    (benchmark.path / "data").mkdir()
    (benchmark.path / name).write_text("nothing" if "/" in name else "As asked: WHO was it  that said so?\n")
    config = BenchmarkConfig(name="bench", expose_files=(name,))
    with pytest.raises(UsageError, match="exposes"):
        prepare_data(
            benchmark.model_copy(update={"config": config}),
            None,
            home,
            FakeFetcher(["a"], ["who was it that said so?"]),
            quiet,
        )


def test_patterns_take_any_of_the_files(home: Home, benchmark: Benchmark, tmp_path: Path) -> None:
    config = BenchmarkConfig(name="bench", data_files=("*.json",))
    open_benchmark = benchmark.model_copy(update={"config": config})
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "x.txt").write_text("")
    with pytest.raises(UsageError, match=r"lacks \*\.json"):
        prepare_data(open_benchmark, folder, home, FakeFetcher(["a"], ["c"]), quiet)
    keys = set()
    for name in ("one.json", "two.json"):
        (folder / name).write_text("{}")
        keys.add(prepare_data(open_benchmark, folder, home, FakeFetcher(["a"], ["c"]), quiet).eval_path)
    assert len(keys) == 2


def test_lone_surrogates_are_named(home: Home, benchmark: Benchmark) -> None:
    def fetch(call: Fetch) -> None:
        name = "train.jsonl" if call.function == "download_train_data" else "test.jsonl"
        (call.target / name).write_text('{"id": "1", "question": "\\ud800", "answer": "1"}\n')

    with pytest.raises(UsageError, match="line 1 is no item"):
        prepare_data(benchmark, None, home, fetch, quiet)
