"""OpenCompass's own pipeline, run inside its image with none of our code: what it asks a model, how it judges answers.

`python opencompass_pipeline.py CONFIG ANSWERS.jsonl` lets OpenCompass read the items with its own dataset class, ask a
model of its own class (Hugging Face with chat template, then base) whose tokenizer and weights are put in place here,
and evaluate the answers of the file as that model's. Prints one JSON object.
"""

import contextlib
import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

END = "-- end of OpenCompass's own output --"


def own_run(name: str, rows: list[dict]) -> dict:
    """What OpenCompass's inference and evaluation tasks do with these rows."""
    import opencompass
    from mmengine.config import Config, ConfigDict
    from opencompass.tasks import OpenICLEvalTask, OpenICLInferTask

    folder = Path(opencompass.__file__).parent / "configs" / "datasets"
    (path,) = folder.rglob(f"{name}.py")
    (dataset,) = next(value for key, value in Config.fromfile(str(path)).items() if key.endswith("_datasets"))
    told = {"opencompass": importlib.metadata.version("opencompass"), "dataset": name}
    for kind in ("chat", "base"):
        work = tempfile.mkdtemp()
        model = ConfigDict(abbr=kind, batch_size=7, type=kind)
        shown = SimpleNamespace(asked=[], options={}, answers=[row["answer"] for row in rows])
        # Only what names the model: the tasks take the model itself as it is.
        config = ConfigDict(models=[model], datasets=[[dataset]], work_dir=work)
        config["eval"] = {"runner": {"task": {"dump_details": True}}}
        OpenICLInferTask(config).run(_model(kind, shown), kind)
        told[kind] = shown.asked
        told["options"] = shown.options
        if kind == "chat":
            OpenICLEvalTask(config).run()
            (result,) = Path(work, "results").rglob("*.json")
            told["result"] = json.loads(result.read_text())
    return told


def _model(kind: str, shown: SimpleNamespace):
    """OpenCompass's own model class, with a tokenizer that keeps what it is given and weights that say the answers."""
    import torch
    from opencompass.models import HuggingFaceBaseModel, HuggingFacewithChatTemplate

    class Tokenizer:
        pad_token_id, eos_token = 0, "<end>"

        def apply_chat_template(self, messages, **_):
            shown.asked.append(messages)
            return ""

        def batch_encode_plus(self, texts, **_):
            if kind == "base":
                shown.asked.extend(texts)
            return {"input_ids": torch.zeros(len(texts), 1, dtype=torch.long)}

        def batch_decode(self, outputs, **_):
            answers, shown.answers = shown.answers[: len(outputs)], shown.answers[len(outputs) :]
            return answers

    class Weights:
        device = "cpu"

        def generate(self, input_ids, **options):
            shown.options = {name: value for name, value in options.items() if isinstance(value, int)}
            return torch.cat([input_ids, input_ids], dim=1)

    class Mixin:
        def _load_tokenizer(self, *_):
            self.tokenizer = Tokenizer()

        def _load_model(self, **_):
            self.model = Weights()

        def _get_potential_stop_words(self, _):
            return []

    base = {"chat": HuggingFacewithChatTemplate, "base": HuggingFaceBaseModel}[kind]
    return type("Prepared", (Mixin, base), {})(path="none", max_seq_len=100_000)


def main() -> None:
    """Lays the items out where OpenCompass looks for GSM8K, and runs it on them."""
    name, answers = sys.argv[1:]
    rows = [json.loads(line) for line in Path(answers).read_text(encoding="utf-8").splitlines()]
    cache = Path(tempfile.mkdtemp())
    os.environ.update(COMPASS_DATA_CACHE=str(cache), HF_HUB_OFFLINE="1", HF_HOME=str(cache), HOME=str(cache))
    # It makes folders where it stands.
    os.chdir(cache)
    data = cache / "data" / "gsm8k"
    data.mkdir(parents=True)
    items = "".join(json.dumps({"question": row["question"], "answer": row["reference"]}) + "\n" for row in rows)
    for split in ("train", "test"):
        (data / f"{split}.jsonl").write_text(items)
    with contextlib.redirect_stdout(sys.stderr):
        told = own_run(name, rows)
    print(END)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
