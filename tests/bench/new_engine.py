"""The published way to score a checkpoint: a process of its own that builds a vLLM engine, answers, and ends.

`python new_engine.py <request.json> <answers.json>`: runs inside a container that has vLLM; used by `scoring.py`.
The engine has vLLM's own defaults; only model, dtype and context length are given, as the published evaluator does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(request_file: Path, answers_file: Path) -> None:
    begun = time.monotonic()
    from vllm import LLM, SamplingParams

    request = json.loads(request_file.read_text())
    engine = LLM(model=request["model"], dtype=request["dtype"], max_model_len=request["max_model_len"], seed=0)
    ready = time.monotonic()
    sampling = SamplingParams(temperature=0.0, max_tokens=request["max_tokens"], stop=request["stop"] or None)
    outputs = engine.chat(request["chats"], sampling, use_tqdm=False)
    answers = [output.outputs[0].text for output in outputs]
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    seconds = {"start_seconds": ready - begun, "generate_seconds": time.monotonic() - ready}
    answers_file.write_text(json.dumps({"answers": answers, "output_tokens": tokens, **seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
