"""BIG-Bench-Hard: its division, what it refuses, and how answers are read."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from standalone import loaded

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "smith-bbh"
N_TASKS = 27


@pytest.fixture(scope="module")
def bbh() -> Iterator[ModuleType]:
    """Its data.py, which imports a file beside it."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield load("data")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("tasks", None)


def load(name: str) -> ModuleType:
    return loaded(FOLDER / f"{name}.py")


EVAL = load("eval")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the task files that are here, as DATA_DIR."""
    import os

    there = Path(os.environ.get("TEST_DATA_DIR", ROOT.parent / "shared" / "data")) / "bbh"
    if not list(there.glob("*.json")):
        pytest.skip(f"no task file of BIG-Bench-Hard in {there}; set TEST_DATA_DIR")
    folder = tmp_path / "bbh"
    folder.mkdir()
    for path in there.glob("*.json"):
        shutil.copyfile(path, folder / path.name)
    monkeypatch.setenv("DATA_DIR", str(folder))
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def halves(bbh: ModuleType, target: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    bbh.download_train_data(target)
    bbh.download_eval_data(target)
    return rows(target / "train.jsonl"), rows(target / "test.jsonl")


def test_all_27_tasks_are_known(bbh: ModuleType) -> None:
    assert len(bbh.TASKS) == N_TASKS
    assert len({task.sha256 for task in bbh.TASKS.values()}) == N_TASKS
    assert {task.form for task in bbh.TASKS.values()} == set(bbh.FORMS)


def test_each_task_is_halved_and_the_canary_goes_nowhere(bbh: ModuleType, source: Path, tmp_path: Path) -> None:
    train, hidden = halves(bbh, tmp_path / "out")
    tasks = {path.stem for path in source.glob("*.json")}
    first, second = (Counter(row["task"] for row in part) for part in (train, hidden))
    assert set(first) == set(second) == tasks
    assert all(second[task] - first[task] in (0, 1) for task in tasks)
    assert not {row["question"] for row in train} & {row["question"] for row in hidden}
    assert all(row["id"].startswith(row["task"]) for row in train + hidden)
    assert "canary" in next(source.glob("*.json")).read_text()
    assert "canary" not in (tmp_path / "out" / "train.jsonl").read_text().lower()


def test_a_task_is_halved_the_same_alone_and_among_others(bbh: ModuleType, source: Path, tmp_path: Path) -> None:
    _, together = halves(bbh, tmp_path / "together")
    kept, *others = sorted(source.glob("*.json"))
    for path in others:
        path.unlink()
    _, alone = halves(bbh, tmp_path / "alone")
    assert alone == [row for row in together if row["task"] == kept.stem]


def test_a_changed_task_file_is_refused(bbh: ModuleType, source: Path, tmp_path: Path) -> None:
    path = next(source.glob("*.json"))
    path.write_text(path.read_text().replace("True", "true", 1) + " ")
    with pytest.raises(ValueError, match="is not the file of BIG-Bench-Hard"):
        bbh.download_train_data(tmp_path / "out")


def test_a_file_that_is_no_task_is_refused(bbh: ModuleType, source: Path, tmp_path: Path) -> None:
    (source / "package.json").write_text("{}")
    with pytest.raises(ValueError, match=r"package\.json"):
        bbh.download_train_data(tmp_path / "out")


def test_ambiguous_and_torn_items_are_left_out(bbh: ModuleType) -> None:
    examples = [
        {"input": "twice", "target": "Yes"},
        {"input": "twice", "target": "No"},
        {"input": "again", "target": "Yes"},
        {"input": "again", "target": "Yes"},
    ]
    assert [row["question"].split("\n\n")[1] for row in bbh._rows("causal_judgement", examples)] == ["again"]
    options = "Which?\nOptions:\n(A) Monsters\n(B) Inc"
    torn = [{"input": options, "target": "Monsters, Inc"}, {"input": options + "!", "target": "(B)"}]
    assert [row["answer"] for row in bbh._rows("movie_recommendation", torn)] == ["(B)"]


@pytest.mark.parametrize(
    ("form", "answer", "read"),
    [
        ("choice", "(B)", "(B)"),
        ("choice", "B", "(B)"),
        ("choice", "B) a name", "(B)"),
        ("choice", "**(B)** a name.", "(B)"),
        ("choice", "(A) is wrong, as it says.\nSo the answer is (B).", "(B)"),
        ("choice", "**Answer:** (B)", "(B)"),
        ("choice", "So the answer is (A) or (B).", None),
        ("choice", "Because", None),
        ("choice", "(Z)", None),
        ("choice", "", None),
        ("yes_no", "yes", "yes"),
        ("yes_no", "No, they do not.", "no"),
        ("yes_no", "Yes or no", None),
        ("yes_no", "Not sure", None),
        ("true_false", "True", "true"),
        ("true_false", "So the answer is False.", "false"),
        ("valid_invalid", "invalid", "invalid"),
        ("valid_invalid", "It is valid", None),
        ("number", "8", "8"),
        ("number", "-50", "-50"),
        ("number", "\u221250.", "-50"),
        ("number", "8 animals", "8"),
        ("number", "007", "7"),
        ("number", "8.5", None),
        ("number", "1,234", None),
        ("number", "seven", None),
        ("number", "9" * 5000, None),
        ("brackets", "] ) }", "] ) }"),
        ("brackets", "])}", "] ) }"),
        ("brackets", "] x", None),
        ("words", "Barn, damp  dot", "barn damp dot"),
        ("words", "it&t", "it&t"),
        ("words", "...", None),
    ],
)
def test_answers_are_read_in_the_form_that_was_asked_for(form: str, answer: str, read: str | None) -> None:
    assert EVAL.extract(answer, form) == read


@pytest.mark.parametrize(
    ("form", "answer", "reference", "score"),
    [
        ("words", "barn dot damp", "barn damp dot", 0.0),
        ("words", "barn damp dot.", "barn damp dot", 1.0),
        ("choice", "(b)", "(B)", 0.0),
        ("yes_no", "no", "No", 1.0),
        ("number", "", "", 0.0),
    ],
)
def test_score_is_exact_match(form: str, answer: str, reference: str, score: float) -> None:
    assert EVAL.evaluate("?", answer, reference, form=form, task="t") == score
