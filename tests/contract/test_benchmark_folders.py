"""What every benchmark folder promises (docs/benchmarks.md)."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from harness import catalog
from harness.domain.items import Item
from harness.domain.specs import Benchmark
from harness.runner.data_items import read_items
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings(root=ROOT)
IDS = sorted(folder.parent.name for folder in (ROOT / "benchmarks").glob("*/config.yaml"))
# What an answer that says nothing scores; a benchmark with a guessing floor would have its own number here.
FLOOR = 0.0
# Function of data.py, folder it is given here, file it makes.
MADE = (("download_train_data", "train", "train.jsonl"), ("download_eval_data", "eval", "test.jsonl"))
Data = tuple[list[Item], list[Item], Path]


@cache
def benchmark_of(benchmark_id: str) -> Benchmark:
    return catalog.find_benchmark(SETTINGS, benchmark_id)


@cache
def module_of(benchmark_id: str, name: str) -> ModuleType:
    path = ROOT / "benchmarks" / benchmark_id / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{benchmark_id}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def data_folder(benchmark: Benchmark) -> Path | None:
    """The local folder with the benchmark's real data; None where data.py needs none."""
    if not benchmark.config.data_files:
        return None
    root = Path(os.environ.get("TEST_DATA_DIR", ROOT.parent / "shared" / "data"))
    folder = root / benchmark.id
    missing = [name for name in benchmark.config.data_files if not (folder / name).is_file()]
    if missing:
        pytest.skip(f"no {', '.join(missing)} of {benchmark.id} in {root}; set TEST_DATA_DIR")
    return folder


@pytest.fixture(scope="module", params=IDS)
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, Data]:
    """The benchmark's train and hidden items, made by its own data.py or lying in its folder."""
    benchmark = benchmark_of(request.param)
    target = tmp_path_factory.mktemp(benchmark.id)
    with pytest.MonkeyPatch.context() as patch:
        if (folder := data_folder(benchmark)) is not None:
            patch.setenv("DATA_DIR", str(folder))
        for function, place, name in MADE:
            (target / place).mkdir()
            if (benchmark.path / "data.py").is_file():
                getattr(module_of(benchmark.id, "data"), function)(target / place)
            else:
                shutil.copyfile(benchmark.path / "data" / name, target / place / name)
    train, hidden = (read_items(target / place / name) for _, place, name in MADE)
    return benchmark, (list(train), list(hidden), target)


@pytest.mark.parametrize("benchmark_id", IDS)
def test_config_is_valid_and_says_where_the_data_is_from(benchmark_id: str) -> None:
    config = benchmark_of(benchmark_id).config
    assert config.licence
    assert "{question}" in config.prompt
    assert config.temperature == 0


@pytest.mark.parametrize("benchmark_id", IDS)
def test_description_names_the_metric_and_the_length_of_an_answer(benchmark_id: str) -> None:
    text = (benchmark_of(benchmark_id).path / "description.md").read_text()
    assert "metric: " in text.lower()
    assert f"most {benchmark_of(benchmark_id).config.max_tokens} new tokens" in text


@pytest.mark.parametrize("benchmark_id", IDS)
def test_its_code_does_not_import_the_harness(benchmark_id: str) -> None:
    for path in (ROOT / "benchmarks" / benchmark_id).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "harness" for name in names), path


@pytest.mark.parametrize("benchmark_id", IDS)
def test_nothing_hidden_lies_in_the_folder_or_is_exposed(benchmark_id: str) -> None:
    benchmark = benchmark_of(benchmark_id)
    assert not set(benchmark.path.rglob("test*.jsonl")) - {benchmark.path / "data" / "test.jsonl"}
    assert not any(name.startswith("data/") for name in benchmark.config.expose_files)
    assert not {"data.py", "eval.py"} & set(benchmark.config.expose_files)


def test_perfect_answerer_scores_everything(data: tuple[Benchmark, Data]) -> None:
    benchmark, (_, hidden, _) = data
    module = module_of(benchmark.id, "eval")
    scores = [module.evaluate(i.question, i.answer, i.answer) for i in hidden]
    assert scores == [1.0] * len(hidden)
    if hasattr(module, "extract"):
        assert all(module.extract(i.answer) is not None for i in hidden)


@pytest.mark.parametrize("answer", ["", "\n", "I do not know.", "####", "\x00\U0001f600", "-"])
def test_answer_that_says_nothing_scores_the_floor(data: tuple[Benchmark, Data], answer: str) -> None:
    benchmark, (_, hidden, _) = data
    module = module_of(benchmark.id, "eval")
    scores = [module.evaluate(i.question, answer, i.answer) for i in hidden]
    assert sum(scores) / len(scores) == FLOOR
    if hasattr(module, "extract"):
        assert module.extract(answer) is None


def test_train_and_hidden_items_do_not_overlap(data: tuple[Benchmark, Data]) -> None:
    _, (train, hidden, _) = data
    assert not {i.id for i in train} & {i.id for i in hidden}
    assert not {i.question.strip().lower() for i in train} & {i.question.strip().lower() for i in hidden}
    assert len({i.id for i in hidden}) == len(hidden)


def test_data_is_made_the_same_again(data: tuple[Benchmark, Data]) -> None:
    benchmark, (_, _, target) = data
    if not (benchmark.path / "data.py").is_file():
        pytest.skip(f"{benchmark.id} has no data.py")
    before = [(target / place / name).read_bytes() for _, place, name in MADE]
    # No DATA_DIR: what is there and right needs no source.
    for function, place, _ in MADE:
        getattr(module_of(benchmark.id, "data"), function)(target / place)
    assert [(target / place / name).read_bytes() for _, place, name in MADE] == before


def test_gsm8k_refuses_data_that_is_not_gsm8k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "1+1?", "answer": "#### 2"}\n')
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    with pytest.raises(ValueError, match="not GSM8K's"):
        module_of("gsm8k", "data").download_train_data(tmp_path / "out")
    assert not (tmp_path / "out" / "train.jsonl").exists()


def test_gsm8k_overlap_check_sees_through_case_and_punctuation() -> None:
    check = module_of("gsm8k", "data").check_no_overlap
    with pytest.raises(ValueError, match="1 test questions"):
        check([{"question": "How many, then?"}], [{"question": "how many then"}])


def test_worked_examples_are_in_no_split(data: tuple[Benchmark, Data]) -> None:
    benchmark, (train, hidden, _) = data
    known = {i.question.split(".")[0].lower() for i in train + hidden}
    assert not {shot.question.split(".")[0].lower() for shot in benchmark.config.few_shot} & known


def test_worked_examples_end_in_an_answer_that_can_be_read(data: tuple[Benchmark, Data]) -> None:
    benchmark, _ = data
    module = module_of(benchmark.id, "eval")
    if not hasattr(module, "extract"):
        pytest.skip(f"{benchmark.id} has no extract")
    assert all(module.extract(shot.answer) for shot in benchmark.config.few_shot)


def test_arithmetic_overlap_check_sees_both_orders() -> None:
    with pytest.raises(ValueError, match="1 hidden pairs"):
        module_of("arithmetic", "data").check_no_overlap([(1, 2)], [(2, 1)])
