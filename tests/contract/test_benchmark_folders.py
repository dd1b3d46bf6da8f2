"""Every benchmark of this repository passes the contract suite (docs/benchmarks.md), here without Docker."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from types import ModuleType

import pytest
from process_workshop import ProcessWorkshop
from standalone import loaded

from harness import catalog
from harness.authoring.folder_checks import has_extract
from harness.authoring.suite import check_folder
from harness.authoring.verdicts import CheckResult, Outcome
from harness.domain.specs import Benchmark
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings(root=ROOT)
IDS = sorted(path.parent.name for path in (ROOT / "benchmarks").glob("[!_]*/config.yaml"))
# What has no meaning for some folders, by mode; anything else may not be left out.
OPTIONAL = {"examples", "cluster", "extract"}


def data_folder(benchmark: Benchmark) -> Path | None:
    """The local folder with the benchmark's real data; None where its script needs none."""
    if not benchmark.config.data_files:
        return None
    root = Path(os.environ.get("TEST_DATA_DIR", ROOT.parent / "shared" / "data"))
    folder = root / benchmark.id.removeprefix("smith-")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    missing = [pattern for pattern in benchmark.config.data_files if not fnmatch.filter(names, pattern)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} of {benchmark.id} in {root}; set TEST_DATA_DIR")
    return folder


def results(benchmark: Benchmark, scratch: Path) -> dict[str, CheckResult]:
    report = check_folder(benchmark, data_folder(benchmark), ProcessWorkshop(scratch), lambda _: None)
    assert not report.failed
    return {result.name: result for result in report.checks}


@pytest.mark.parametrize("benchmark_id", IDS)
def test_folder_passes_the_contract_suite(benchmark_id: str, tmp_path: Path) -> None:
    benchmark = catalog.find_benchmark(SETTINGS, benchmark_id)
    skipped = {name for name, result in results(benchmark, tmp_path).items() if result.outcome is Outcome.SKIPPED}
    assert skipped <= OPTIONAL
    assert ("extract" in skipped) == (not has_extract(benchmark))


def module_of(benchmark_id: str, name: str) -> ModuleType:
    return loaded(ROOT / "benchmarks" / benchmark_id / f"{name}.py")


@pytest.mark.parametrize("benchmark_id", ["arithmetic", "gsm8k"])
def test_data_that_is_there_and_right_needs_no_source(benchmark_id: str, tmp_path: Path) -> None:
    folder = data_folder(catalog.find_benchmark(SETTINGS, benchmark_id))
    data = module_of(benchmark_id, "data")
    with pytest.MonkeyPatch.context() as patch:
        if folder is not None:
            patch.setenv("DATA_DIR", str(folder))
        for function in (data.download_train_data, data.download_eval_data):
            function(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for function in (data.download_train_data, data.download_eval_data):
        function(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


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


def test_gsm8k_worked_examples_end_in_an_answer_that_can_be_read() -> None:
    extract = module_of("gsm8k", "eval").extract
    assert all(extract(shot.answer) for shot in catalog.find_benchmark(SETTINGS, "gsm8k").config.few_shot)


def test_arithmetic_overlap_check_sees_both_orders() -> None:
    with pytest.raises(ValueError, match="1 hidden pairs"):
        module_of("arithmetic", "data").check_no_overlap([(1, 2)], [(2, 1)])
