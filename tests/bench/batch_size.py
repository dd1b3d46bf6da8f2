"""How fast the `transformers` engine answers a benchmark's hidden items, by batch size.

`python tests/bench/batch_size.py [--sizes 8,32,128,256] [--times 9] [--json]`: the inference container with
`tiny-arith` and the hidden items of `arithmetic`; a fresh container per size, one unmeasured pass first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from api_latency import planned
from machine import machine, report

from harness.domain.specs import RunPlan
from harness.grader.items import hidden_items
from harness.grader.prompts import build_prompt, sampling_of
from harness.inference.client import InferenceClient
from harness.inference.wire import GenerateRequest, LoadRequest
from harness.runner.host import Host
from harness.sandbox.owner import current_owner
from harness.sandbox.services import inference_memory_mb, inference_service, start_services, stop_services
from harness.settings import load_settings


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="8,32,128,256")
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-bench-")))
        os.environ["HARNESS_HOME"] = str(folder / "home")
        host = stack.enter_context(Host.open(load_settings(), lambda event: None))
        plan, where = planned(host), machine()
        took = {size: generated(host, plan, size, options.times) for size in sizes}
    figures = {"machine": where, "items": plan.data.eval_items, "seconds": took}
    lines = [f"{plan.data.eval_items} items of {plan.benchmark.id}, {plan.model.repo_id}, median of {options.times}"]
    lines += [
        f"batch {size:4}  {median(times):6.2f} s  {plan.data.eval_items / median(times):7.1f} items/s"
        for size, times in took.items()
    ]
    report(figures, lines, as_json=options.json)


def generated(host: Host, plan: RunPlan, batch_size: int, times: int) -> list[float]:
    """Seconds that the engine itself reports for all hidden items."""
    engine = plan.engine.model_copy(update={"batch_size": batch_size})
    run_id = f"{plan.run_id}-{batch_size}"
    memory_mb = inference_memory_mb(plan.model.size_bytes)
    service = inference_service(host.home, run_id, current_owner(), engine, memory_mb)
    spec = plan.benchmark.config.prompt_spec()
    prompts = tuple(build_prompt(spec, item.question) for item in hidden_items(host.home, plan))
    request = GenerateRequest(prompts=prompts, sampling=sampling_of(spec, engine.seed))
    try:
        (started,) = start_services(host.client, host.home, [service], 120)
        client = InferenceClient(started.socket)
        client.load(LoadRequest(path=f"/{plan.model.path}"))
        return [client.generate(request).generate_seconds for _ in range(times + 1)][1:]
    finally:
        stop_services(host.client, host.home, run_id)


if __name__ == "__main__":
    main()
