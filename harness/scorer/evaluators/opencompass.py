"""`opencompass`: OpenCompass as a library: its config's prompts, post-processors and evaluator, on the items given.

The dataset's own loader is left out: an item's published fields (`question`, `answer` and the others of its record) are
the row that it would have read. OpenCompass's inference task meets a model that only keeps what it is asked; its
evaluation task gets the real engine's answers. Everything of OpenCompass is imported late: most images do not have it.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.domain.prompts import Message, Prompt
from harness.domain.specs import OPENCOMPASS_VERSION
from harness.errors import EvaluationFailed
from harness.scorer.evaluators.base import Place
from harness.scorer.evaluators.code import Code
from harness.scorer.wire import AskedItem, ItemVerdict, PromptsReply, ScoreItem

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Read in this version, and found to treat an answer as text only. Several others call eval() on it, run it as code, or
# ask another model about it.
EVALUATORS = ("Gsm8kEvaluator", "MATHEvaluator")
# Runs answers as code where it is called: their programs go to the executor instead, for the benchmark's own check.
PROGRAM_EVALUATOR = "HumanEvalEvaluator"
POSTPROCESSORS = ("gsm8k_postprocess", "gsm8k_dataset_postprocess", "math_postprocess_v2", "humaneval_postprocess_v2")
INFERENCERS, RETRIEVERS = ("GenInferencer",), ("ZeroRetriever",)
# What an evaluation may be described by; other keys ask for another kind of evaluation. `k` has no effect.
EVALUATION_KEYS = ("evaluator", "pred_postprocessor", "dataset_postprocessor", "pred_role", "k")
# Where an evaluator says of one answer whether it was right, and what it calls the share of right ones.
DETAIL_KEYS, SHARE_KEYS = ("correct", "is_correct"), ("accuracy", "score")
# What post-processors give where they found nothing.
NOTHING = ("", "NULL")
TOLERANCE_PCT = 1e-6


def is_installed() -> bool:
    """Whether this image has OpenCompass."""
    return importlib.util.find_spec("opencompass") is not None


def preload() -> None:
    """Imports what an evaluation needs: most of its time."""
    for part in ("datasets", "models", "tasks"):
        importlib.import_module(f"opencompass.{part}")


class OpenCompass:
    """An `Evaluator` and a `Prompter` on one of OpenCompass's dataset configs, by its name."""

    def __init__(self, dataset: str | None, place: Place) -> None:
        self._place = place
        with _told(f"OpenCompass's config {dataset}"):
            self._config = _dataset_config(dataset or "")

    def prompts(self, items: Sequence[AskedItem], *, chat: bool) -> PromptsReply:
        """What OpenCompass would send for `items`: to a chat model, and as text to a model without a chat template."""
        inferencer = self._config["infer_cfg"]["inferencer"]
        _only("inferencer", inferencer["type"], INFERENCERS)
        _only("retriever", self._config["infer_cfg"]["retriever"]["type"], RETRIEVERS)
        rows = [row_of(self._config, item, reference="") for item in items]
        with _told("making prompts"):
            asked, plain = _asked(self._config, rows, chat=True), _asked(self._config, rows, chat=False)
        return PromptsReply(
            prompts=tuple(
                Prompt(messages=_messages(messages), plain=text) if chat else Prompt(text=text)
                for messages, text in zip(asked.inputs, plain.inputs, strict=True)
            ),
            max_tokens=asked.max_out_len,
            stop=tuple(asked.stopping_criteria),
        )

    def run(self, items: Sequence[ScoreItem]) -> list[ItemVerdict]:
        """See `Evaluator`; the share of right answers must be the one that OpenCompass reports."""
        evaluation = self._config["eval_cfg"]
        for name in evaluation:
            _only("eval_cfg", name, EVALUATION_KEYS)
        judge = _only("evaluator", evaluation["evaluator"]["type"], (*EVALUATORS, PROGRAM_EVALUATOR))
        for name in ("pred_postprocessor", "dataset_postprocessor"):
            if name in evaluation:
                _only(name, evaluation[name]["type"], POSTPROCESSORS)
        rows = [row_of(self._config, item, item.reference) for item in items]
        with _told("scoring"):
            task, found = _read(self._config, rows, [item.answer for item in items])
        if judge == PROGRAM_EVALUATOR:
            return self._run_programs(items, found)
        with _told("scoring"):
            result = _judged(task, rows, found)
        return verdicts([item.item_id for item in items], found, result)

    def _run_programs(self, items: Sequence[ScoreItem], found: Sequence[str]) -> list[ItemVerdict]:
        """OpenCompass's program is the prompt with what its post-processor found behind it."""
        read = [item.model_copy(update={"answer": text}) for item, text in zip(items, found, strict=True)]
        return Code(self._place.eval_file, self._place.executor, program=completed).run(read)


def completed(question: str, found: str, **_: object) -> str | None:
    """The program that is judged: HumanEval's prompt and what was found in the answer; None if that is nothing."""
    return question + found if found.strip() else None


def verdicts(item_ids: Sequence[str], found: Sequence[Any], result: dict[str, Any]) -> list[ItemVerdict]:
    """One verdict for each item, from what the post-processor found and what the evaluator said of each.

    Raises:
        EvaluationFailed: the evaluator does not tell about single answers, or its own figure is another one.
    """
    right = [_is_right(detail) for detail in result.get("details") or ()]
    if len(right) != len(item_ids):
        raise EvaluationFailed(f"OpenCompass's evaluator told about {len(right)} of {len(item_ids)} answers")
    name = next((key for key in SHARE_KEYS if key in result), None)
    share_pct = float(result[name]) if name else math.nan
    if not abs(100 * fmean(right) - share_pct) <= TOLERANCE_PCT:
        raise EvaluationFailed(
            f"OpenCompass reports {share_pct} % right answers, but calls {sum(right)} of {len(right)} right"
        )
    return [
        ItemVerdict(item_id=item_id, score=float(is_right), is_extracted=text not in NOTHING)
        for item_id, is_right, text in zip(item_ids, right, found, strict=True)
    ]


def _is_right(detail: dict[str, Any]) -> bool:
    key = next((key for key in DETAIL_KEYS if key in detail), None)
    if key is None:
        raise EvaluationFailed(f"OpenCompass's evaluator tells {sorted(detail)} of an answer, not whether it is right")
    value = detail[key]
    # OpenCompass makes lists of them, one entry for each repetition of the dataset.
    return bool(value[0] if isinstance(value, list) else value)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """An edge: whatever OpenCompass raises ends the evaluation, and is told."""
    try:
        yield
    except EvaluationFailed:
        raise
    except (Exception, SystemExit) as error:
        raise EvaluationFailed(f"{what}: OpenCompass raised {type(error).__name__}: {error}"[:2_000]) from error


def _only(part: str, kind: Any, known: Sequence[str]) -> str:
    name = (kind if isinstance(kind, str) else kind.__name__).rpartition(".")[2]
    if name not in known:
        raise EvaluationFailed(
            f"this OpenCompass config's {part} is {name}; served are {', '.join(known)}",
            "Use another config of the same data, or eval_mode per_sample.",
        )
    return name


def _dataset_config(name: str) -> Any:
    """The one dataset that the config of this name describes."""
    import opencompass
    from mmengine.config import Config

    installed = importlib.metadata.version("opencompass")
    if installed != OPENCOMPASS_VERSION:
        raise EvaluationFailed(f"OpenCompass is {installed} here; scores are filed as those of {OPENCOMPASS_VERSION}")
    folder = Path(opencompass.__file__).parent / "configs" / "datasets"
    files = {path.stem: path for path in sorted(folder.rglob("*.py"))}
    if not NAME.fullmatch(name) or name not in files:
        near = difflib.get_close_matches(name, files, n=3)
        raise EvaluationFailed(
            f"OpenCompass {installed} has no dataset config `{name}`",
            f"Set opencompass_dataset to the name of one{': ' + ', '.join(near) if near else ''}.",
        )
    config = Config.fromfile(str(files[name]), format_python_code=False)
    datasets = [dataset for key in config if key.endswith("_datasets") for dataset in config[key]]
    if len(datasets) != 1:
        raise EvaluationFailed(f"OpenCompass's config {name} describes {len(datasets)} datasets; it must be one")
    return datasets[0]


def row_of(config: Any, item: AskedItem | ScoreItem, reference: str) -> dict[str, Any]:
    """The dataset row of an item, by the config's columns: its record, the only input column being the question.

    Raises:
        EvaluationFailed: the config reads a field that the item's record has not.
    """
    reader = config["reader_cfg"]
    inputs, output = reader["input_columns"], reader["output_column"]
    inputs = inputs.split() if isinstance(inputs, str) else inputs
    row = {**item.extra, "question": item.question, "answer": reference}
    if len(inputs) == 1:
        row.setdefault(inputs[0], item.question)
    missing = [name for name in inputs if name not in row]
    if missing:
        raise EvaluationFailed(
            f"item {item.item_id} has no field {', '.join(missing)}, which this OpenCompass config reads",
            "The benchmark's test.jsonl must have the fields of the published dataset.",
        )
    return row if output is None or output in row else {**row, output: reference}


def _given(config: Any, rows: Sequence[dict[str, Any]]) -> Any:
    """`config`, but with these rows in place of what the dataset's own loader would read."""
    import datasets
    from opencompass.datasets.base import BaseDataset

    datasets.disable_caching()
    datasets.disable_progress_bars()

    class Given(BaseDataset):  # type: ignore[misc]
        """Rows that are there already."""

        @staticmethod
        def load(**options: Any) -> datasets.DatasetDict:
            given = datasets.Dataset.from_list(list(rows))
            splits = [config["reader_cfg"].get(f"{part}_split", part) for part in ("train", "test")]
            # No config that is served takes anything from the train split; the reader wants one.
            return datasets.DatasetDict({splits[0]: given.select([]), splits[1]: given})

    return {**config, "type": Given}


def _asked(config: Any, rows: Sequence[dict[str, Any]], *, chat: bool) -> Any:
    """What OpenCompass's inference task asks a model, which is kept as `inputs` of the model returned."""
    from mmengine.config import ConfigDict
    from opencompass.models.base import BaseModel, LMTemplateParser
    from opencompass.models.huggingface_above_v4_33 import (
        _convert_base_messages,
        _convert_chat_messages,
        _get_meta_template,
    )
    from opencompass.tasks import OpenICLInferTask

    class Recorder(BaseModel):  # type: ignore[misc]
        """Parses prompts as HuggingFacewithChatTemplate does, or HuggingFaceBaseModel, and generates nothing."""

        def __init__(self) -> None:
            self.template_parser = _get_meta_template(None) if chat else LMTemplateParser()
            self.inputs: list[Any] = []
            self.max_out_len: int | None = None
            self.stopping_criteria: list[str] = []

        def generate(
            self, inputs: list[Any], max_out_len: int | None, stopping_criteria: list[str] | None = None
        ) -> list[str]:
            self.inputs += (_convert_chat_messages if chat else _convert_base_messages)(inputs)
            self.max_out_len, self.stopping_criteria = max_out_len, stopping_criteria or []
            return [""] * len(inputs)

    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        model = ConfigDict(abbr="model", batch_size=len(rows))
        task = OpenICLInferTask(ConfigDict(models=[model], datasets=[[_given(config, rows)]], work_dir=folder))
        task.run(recorder, "model")
    return recorder


def _messages(chat: Sequence[dict[str, str]]) -> tuple[Message, ...]:
    return tuple(Message(role=message["role"], content=message["content"]) for message in chat)


def _read(config: Any, rows: Sequence[dict[str, Any]], answers: Sequence[str]) -> tuple[Any, list[Any]]:
    """OpenCompass's evaluation task, and what its post-processors find in each answer."""
    from mmengine.config import ConfigDict
    from opencompass.tasks import OpenICLEvalTask

    keeps_details = {"runner": {"task": {"dump_details": True}}}
    given, model = ConfigDict(_given(config, rows)), ConfigDict(abbr="model")
    task = OpenICLEvalTask(ConfigDict(models=[model], datasets=[[given]], work_dir="", eval=keeps_details))
    # What its run() does before it reads the predictions from a file.
    task.model_cfg, task.dataset_cfg, task.eval_cfg = model, given, given["eval_cfg"]
    task.output_column = given["reader_cfg"]["output_column"]
    return task, list(task._process_predictions(list(answers)))


def _judged(task: Any, rows: Sequence[dict[str, Any]], found: Sequence[Any]) -> dict[str, Any]:
    """The result of OpenCompass's evaluation task, with details."""
    with tempfile.TemporaryDirectory() as folder:
        task.work_dir = folder
        references = task._load_and_preprocess_test_data()
        return dict(task._evaluate_predictions(list(found), references, [{} for _ in rows]))
