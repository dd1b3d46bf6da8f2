"""eval_mode opencompass without OpenCompass: its stored verdicts against `per_sample`, and what is believed of it."""

from __future__ import annotations

import pytest
from opencompass_golden import BEGIN, DOCUMENT, END, golden, per_sample, prepared, table

from harness.domain.specs import OPENCOMPASS_VERSION
from harness.errors import EvaluationFailed
from harness.scorer.evaluators.opencompass import completed, row_of, verdicts
from harness.scorer.wire import AskedItem

GSM8K = {"reader_cfg": {"input_columns": ["question"], "output_column": "answer"}}
HUMANEVAL = {"reader_cfg": {"input_columns": "prompt", "output_column": "task_id"}}
ITEM = AskedItem(item_id="7", question="1+1?", extra={"level": 3})


def details(*right: bool) -> dict[str, object]:
    return {"accuracy": 100 * sum(right) / len(right), "details": [{"pred": ["2"], "correct": [r]} for r in right]}


def test_the_stored_verdicts_are_of_this_version_and_of_these_answers() -> None:
    kept = golden()
    assert kept["opencompass"] == OPENCOMPASS_VERSION
    assert list(kept["verdicts"]) == [row["id"] for row in prepared()]
    right = [verdict["right"] for verdict in kept["verdicts"].values()]
    assert kept["accuracy"] == pytest.approx(100 * sum(right) / len(right))
    assert len(right) >= 60


def test_the_document_shows_where_per_sample_differs() -> None:
    shown = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert shown == table(golden()["verdicts"])


def test_references_are_read_the_same_way() -> None:
    kept, judge = golden()["verdicts"], per_sample()
    for row in prepared():
        assert judge.extract(row["reference"]) == judge.extract(f"#### {kept[row['id']]['expected']}")


def test_a_verdict_is_what_the_evaluator_says_of_the_answer() -> None:
    told = verdicts(["a", "b", "c"], ["2", "NULL", ""], details(True, False, False))
    assert [(v.item_id, v.score, v.is_extracted) for v in told] == [("a", 1, True), ("b", 0, False), ("c", 0, False)]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"accuracy": 100.0}, "told about 0 of 2 answers"),
        ({**details(True), "accuracy": 100.0}, "told about 1 of 2 answers"),
        ({**details(True, False), "accuracy": 51.0}, "reports 51.0 % right answers, but calls 1 of 2 right"),
        ({"details": details(True, False)["details"]}, "reports nan % right"),
        ({"error": "preds and refrs have different length"}, "told about 0 of 2"),
        ({"accuracy": 50.0, "details": [{"pred": "1"}, {"pred": "2"}]}, r"tells \['pred'\] of an answer"),
    ],
)
def test_an_evaluator_that_contradicts_itself_is_not_believed(result: dict[str, object], words: str) -> None:
    with pytest.raises(EvaluationFailed, match=words):
        verdicts(["a", "b"], ["1", "2"], result)


def test_a_row_has_the_fields_of_the_items_record() -> None:
    assert row_of(GSM8K, ITEM, "#### 2") == {"level": 3, "question": "1+1?", "answer": "#### 2"}


def test_the_only_input_column_is_the_question_whatever_its_name() -> None:
    row = row_of(HUMANEVAL, ITEM, "r")
    assert (row["prompt"], row["task_id"]) == ("1+1?", "r")
    own = row_of(HUMANEVAL, ITEM.model_copy(update={"extra": {"prompt": "own", "task_id": "t"}}), "r")
    assert (own["prompt"], own["task_id"]) == ("own", "t")


def test_a_field_that_an_item_lacks_is_named() -> None:
    config = {"reader_cfg": {"input_columns": ["question", "context", "choices"], "output_column": "answer"}}
    with pytest.raises(EvaluationFailed, match="item 7 has no field context, choices"):
        row_of(config, ITEM, "r")


def test_a_program_is_the_prompt_with_what_was_found_behind_it() -> None:
    assert completed("def f():\n", "    return 1", entry_point="f") == "def f():\n    return 1"
    assert completed("def f():\n", " \n") is None
