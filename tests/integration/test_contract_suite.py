"""The contract suite finds what is wrong with a benchmark's data and evaluator, through real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from drafts import CONFIG, DATA, EVAL, GOOD
from process_workshop import ProcessWorkshop

from harness import catalog
from harness.authoring.data_checks import prepare
from harness.authoring.scoring_checks import Subject
from harness.authoring.suite import SCORING_CHECKS, check_folder
from harness.authoring.template_folder import write_benchmark
from harness.authoring.verdicts import Outcome, SuiteReport
from harness.errors import EvaluationFailed, UsageError
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
Judge = Callable[[str, str], object]


def written(tmp_path: Path, files: dict[str, str]) -> Path:
    folder = tmp_path / "capitals"
    folder.mkdir(parents=True)
    for name, content in {**GOOD, **files}.items():
        (folder / name).write_text(content)
    return folder


def suite(folder: Path, scratch: Path) -> SuiteReport:
    benchmark = catalog.benchmark_at(Settings(root=folder.parent), folder)
    return check_folder(benchmark, None, ProcessWorkshop(scratch), lambda _: None)


def test_the_template_passes_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "my-task"
    write_benchmark(ROOT, folder)
    report = suite(folder, tmp_path / "scratch")
    assert not report.failed
    assert [check.name for check in report.checks if check.outcome is Outcome.SKIPPED] == ["examples", "cluster"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_train_data_alone_is_divided_and_passes(tmp_path: Path) -> None:
    data = DATA[: DATA.index("def download_eval_data")].replace("range(0, 40, 2)", "range(60)")
    report = suite(written(tmp_path, {"data.py": data}), tmp_path / "scratch")
    assert not report.failed
    assert any("divided by hash" in check.what for check in report.checks)


def test_modes_that_cannot_be_tried_are_skipped_and_told(tmp_path: Path) -> None:
    report = suite(written(tmp_path, {"config.yaml": CONFIG + "eval_mode: judge\n"}), tmp_path / "scratch")
    checks = {check.name: check for check in report.checks}
    assert checks["perfect"].outcome is Outcome.SKIPPED
    assert "judge" in checks["perfect"].what
    assert checks["division"].outcome is Outcome.PASSED


# Not reached by these: the mode keeps their answers from being tried.
UNSCORED = CONFIG + "eval_mode: judge\n"
EXAMPLE = 'few_shot: [{question: "What is the  double of 1?", answer: "2"}]\n'


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"data.py": "def download_train_data(target_dir): raise OSError('gone')\n"}, "gone"),
        ({"data.py": "def download_train_data(target_dir): ...\n"}, "provides no train.jsonl"),
        ({"data.py": DATA.replace("range(1, 40, 2)", "range(0, 40, 3)")}, "hidden questions are in the train data"),
        ({"data.py": DATA.replace("range(1, 40, 2)", "range(1, 9, 2)")}, "4 hidden items tell nothing"),
        (
            {"data.py": "import time\n" + DATA.replace("str(2 * n)", "str(time.time_ns())")},
            "another file the second time",
        ),
        ({"config.yaml": UNSCORED + "hidden_items: 7\n"}, "tells 7 hidden items, there are 20"),
        ({"config.yaml": UNSCORED + EXAMPLE}, "is a hidden item"),
        ({"config.yaml": UNSCORED + "cluster_by: topic\n"}, "has no 'topic'"),
    ],
)
def test_each_fault_of_the_data_is_told(files: dict[str, str], words: str, tmp_path: Path) -> None:
    report = suite(written(tmp_path, {"config.yaml": UNSCORED, **files}), tmp_path / "scratch")
    assert any(words in check.what for check in report.failed), report.failed


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Runs one check on an eval.py; data and scorer are made once."""
    place = tmp_path_factory.mktemp("judge")
    benchmark = catalog.benchmark_at(Settings(root=place), written(place, {}))
    workshop = ProcessWorkshop(place / "scratch")
    hidden = prepare(benchmark, None, place / "store", workshop.fetch(benchmark)).hidden
    with workshop.scorer(benchmark) as scorer:

        def run(check: str, code: str, floor: float = 0.0) -> object:
            (benchmark.path / "eval.py").write_text(code)
            config = benchmark.config.model_copy(update={"floor": floor})
            return SCORING_CHECKS[check](Subject(benchmark.model_copy(update={"config": config}), hidden, scorer))

        yield run


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluators that hang cost these tests less."""
    monkeypatch.setattr("harness.authoring.scoring_checks.HOSTILE_TIMEOUT_S", 8.0)
    monkeypatch.setattr("harness.authoring.scoring_checks.ONE_TIMEOUT_S", 4.0)


FLOOR = EVAL.replace("float(", "max(0.25, float(").replace("== reference_answer)", "== reference_answer))")
LOTS = "import random\ndef evaluate(q, a, r, **k): return float(a == r or (a.isdigit() and random.random() < 0.5))\n"
COUNTS = """
seen = []
def evaluate(question, model_answer, reference_answer, **kwargs):
    seen.append(1)
    return float(model_answer == reference_answer or (model_answer.isdigit() and len(seen) % 7 == 0))
"""
DIGITS = """
def evaluate(question, model_answer, reference_answer, **kwargs):
    digits = "".join(character for character in model_answer if character in "0123456789")
    return float(bool(digits) and int(digits) == int(reference_answer))
"""
RUNS = """
def evaluate(question, model_answer, reference_answer, **kwargs):
    try:
        return float(eval(model_answer, {}) == int(reference_answer))
    except Exception:
        return 0.0
"""
SLOW = """
import re
def evaluate(question, model_answer, reference_answer, **kwargs):
    return float(bool(re.match(r"^(a+)+$", model_answer)))
"""


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        ("perfect", EVAL.replace("== reference_answer", "== reference_answer + '.'"), "scores 0 on item"),
        ("floor", FLOOR, "scores 25.0, not 0.0"),
        ("extract", EVAL.replace("return text if", "return None if"), "extract() gives None"),
        ("extract", EVAL.replace("else None", "else text"), "reads something out of ''"),
        ("repeat", LOTS, "judged differently"),
        ("repeat", COUNTS, "judged differently in another order"),
        ("hostile", DIGITS, "breaks on a hundred thousand digits"),
        ("hostile", RUNS, "breaks on "),
    ],
)
def test_each_fault_of_an_evaluator_is_told(judge: Judge, impatient: None, check: str, code: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        judge(check, code)
    assert words in caught.value.what
    assert caught.value.fix


def test_an_evaluator_that_takes_for_ever_is_told(judge: Judge, impatient: None) -> None:
    with pytest.raises(UsageError, match=r"breaks on a run of letters and a sign: .*timeout"):
        judge("hostile", SLOW)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def evaluate(*_, **__): raise KeyError('gold')\n", "KeyError"),
        (EVAL.replace("float(", "100 * float("), "not in"),
    ],
)
def test_an_evaluator_that_gives_no_score_fails_as_it_would_in_a_run(judge: Judge, code: str, words: str) -> None:
    with pytest.raises(EvaluationFailed, match=words):
        judge("perfect", code)


def test_a_floor_can_be_declared(judge: Judge) -> None:
    assert "score 25" in str(judge("floor", FLOOR, 0.25))
