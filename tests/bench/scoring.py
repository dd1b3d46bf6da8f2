"""A warm engine against a new engine per submission, side by side, on one checkpoint and a benchmark's hidden items.

`python tests/bench/scoring.py --model <folder> --data-dir <folder> [--task gsm8k] [--gpu 0] [--limit N] [--json]`

1. ours, cold: containers of inference and scorer are started, the checkpoint is scored;
2. ours, warm: the engine sleeps, another checkpoint (the lowest bit of each matrix element flipped) is scored, it
   sleeps again, and the first checkpoint is scored once more; `--times` rounds of it;
3. ours after a restart of the engine: the first checkpoint once more;
4. the published way: a container per submission that builds a vLLM engine with its defaults, answers and ends; twice
   with an empty compile cache, and twice with the cache of those before (`--published 0` leaves it out: on a CPU).

Every scoring goes through the grader's own `evaluate`, with the benchmark's own scorer; items that differ from the
first scoring's are counted, answers and scores alike. No grader, agent or database is needed, so it also runs on a
host that has Docker and these images alone (`--image`, `--scorer-image`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml
from docker import DockerClient
from docker.types import DeviceRequest, Mount
from machine import machine, report

from harness.checkpoint.tree import read_header, tree_hash
from harness.domain.items import Item, parse_item, select
from harness.domain.scoring import ItemResult
from harness.domain.specs import (
    Agent,
    AgentConfig,
    Benchmark,
    BenchmarkConfig,
    DataRef,
    EngineSpec,
    Limits,
    ModelRef,
    Protocol,
    RunPlan,
)
from harness.grader.evaluate import Services, Subject, evaluate
from harness.grader.prompts import build_prompt
from harness.home import Home
from harness.inference.client import InferenceClient
from harness.runner.engines import engine_spec, hardware_of
from harness.sandbox.engine import connect
from harness.sandbox.gpus import chosen, list_gpus
from harness.sandbox.hardening import Isolation
from harness.sandbox.owner import current_owner
from harness.sandbox.services import (
    inference_memory_mb,
    inference_service,
    scorer_service,
    start_services,
    stop_services,
)
from harness.scorer.client import ScorerClient
from harness.scorer.wire import ScoreItem, ScoreRequest
from harness.store.models import EvaluationKey, NewEvaluation

ROOT = Path(__file__).resolve().parents[2]
RUN_ID = "20260101T000000_bench_0000"
START_TIMEOUT_S = 600.0
LIMIT_S = 900.0


@dataclass
class Scoring:
    """One scoring: what it took and how many of its items are not those of the first."""

    name: str
    total_seconds: float
    start_seconds: float
    load_seconds: float
    generate_seconds: float
    score_seconds: float
    output_tokens: int
    score_pct: float
    different_answers: int = 0
    different_scores: int = 0
    items: tuple[tuple[str, float], ...] = field(default=(), repr=False)

    def shown(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if name != "items"}
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="gsm8k")
    parser.add_argument("--model", type=Path, required=True, help="a complete Hugging Face folder")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with test.jsonl")
    parser.add_argument("--image", help="inference image (default: the checkout's)")
    parser.add_argument("--scorer-image", help="scorer image (default: the checkout's)")
    parser.add_argument("--spec", default="{}", help="fields of EngineSpec as JSON")
    parser.add_argument("--gpu", help="id of one GPU; without it everything runs on the CPU")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--published", type=int, default=2, help="scorings with a new engine, for each kind of cache")
    parser.add_argument("--published-python", default="python", help="interpreter with vLLM inside the image")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="the figures as JSON into this file too, after every scoring")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp") as folder:
        bench = Bench(options, Path(folder))
        try:
            bench.ours()
            bench.published()
        finally:
            bench.close()
    if options.json:
        print(json.dumps(bench.figures(), indent=2))
    else:
        report(bench.figures(), bench.lines(), as_json=False)


class Bench:
    """Home, plan and services of one measurement."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        self._folder = folder
        self._where = machine()
        self._client: DockerClient = connect()
        self._home = Home(folder / "h")
        self._home.create()
        self._items = _items(options.data_dir / "test.jsonl", options.limit)
        _copied(options.model, self._home.models / "base")
        _altered(options.model, self._home.models / "other")
        self._plan = self._planned()
        self._info: dict[str, Any] = {}
        self.scorings: list[Scoring] = []

    def close(self) -> None:
        stop_services(self._client, self._home, RUN_ID)
        self._client.close()

    def ours(self) -> None:
        begun = time.monotonic()
        services = self._started()
        self._scored("ours, cold", "base", services, begun=begun)
        for number in range(1, self._options.times + 1):
            self._asleep(services)
            self._scored(f"ours, warm, another checkpoint {number}", "other", services)
            self._asleep(services)
            self._scored(f"ours, warm {number}", "base", services)
        stop_services(self._client, self._home, RUN_ID)
        begun = time.monotonic()
        self._scored("ours, after a restart", "base", self._started(), begun=begun)
        stop_services(self._client, self._home, RUN_ID)

    def published(self) -> None:
        if not self._options.published:
            return
        (started,) = start_services(self._client, self._home, [self._scorer()], START_TIMEOUT_S)
        scorer = ScorerClient(started.socket)
        for kind in ("empty cache", "warm cache"):
            for number in range(1, self._options.published + 1):
                cache = self._folder / "cache"
                if kind == "empty cache":
                    shutil.rmtree(cache, ignore_errors=True)
                cache.mkdir(exist_ok=True)
                cache.chmod(0o777)
                self._published_once(f"new engine, {kind} {number}", cache, scorer)

    def _published_once(self, name: str, cache: Path, scorer: ScorerClient) -> None:
        spec = self._plan.benchmark.config.prompt_spec()
        exchange = self._folder / "exchange"
        shutil.rmtree(exchange, ignore_errors=True)
        exchange.mkdir()
        exchange.chmod(0o777)
        chats = [[m.model_dump() for m in build_prompt(spec, item.question).messages or ()] for item in self._items]
        engine = self._plan.engine
        asked = {"model": "/models/base", "dtype": engine.dtype, "max_model_len": engine.max_model_len, "chats": chats}
        asked |= {"max_tokens": spec.max_tokens, "stop": list(spec.stop)}
        (exchange / "request.json").write_text(json.dumps(asked))
        begun = time.monotonic()
        self._run_new_engine(exchange, cache)
        answered = json.loads((exchange / "answers.json").read_text())
        judged = time.monotonic()
        verdicts = scorer.score(
            ScoreRequest(
                eval_mode=self._plan.benchmark.config.eval_mode,
                items=tuple(
                    ScoreItem(item_id=i.id, question=i.question, reference=i.answer, answer=text, extra=i.extra)
                    for i, text in zip(self._items, answered["answers"], strict=True)
                ),
            )
        ).verdicts
        ended = time.monotonic()
        self._add(
            Scoring(
                name=name,
                total_seconds=ended - begun,
                start_seconds=judged - begun - answered["generate_seconds"],
                load_seconds=0.0,
                generate_seconds=answered["generate_seconds"],
                score_seconds=ended - judged,
                output_tokens=answered["output_tokens"],
                score_pct=100 * sum(v.score for v in verdicts) / len(verdicts),
                items=tuple(zip(answered["answers"], (v.score for v in verdicts), strict=True)),
            )
        )

    def _run_new_engine(self, exchange: Path, cache: Path) -> None:
        script = Path(__file__).with_name("new_engine.py")
        mounts = [Mount("/exchange", str(exchange), type="bind"), Mount("/cache", str(cache), type="bind")]
        mounts += [Mount("/models", str(self._home.models), type="bind", read_only=True)]
        mounts += [Mount("/new_engine.py", str(script), type="bind", read_only=True)]
        home = {"USER": "harness", "HOME": "/tmp", "XDG_CACHE_HOME": "/cache", "VLLM_CACHE_ROOT": "/cache/vllm"}
        home |= {"TRITON_CACHE_DIR": "/cache/triton", "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor"}
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
        container = self._client.containers.create(
            self._plan.engine.image,
            [self._options.published_python, "/new_engine.py", "/exchange/request.json", "/exchange/answers.json"],
            entrypoint=[],
            environment={**home, **quiet, "VLLM_USE_FLASHINFER_SAMPLER": "0"},
            mounts=mounts,
            network_mode="none",
            shm_size="8g",
            tmpfs={"/tmp": "exec,size=8g,mode=1777"},
            device_requests=[DeviceRequest(**_device(self._client, self._options.gpu))],
            labels={"harness.home": self._home.label},
        )
        try:
            container.start()
            status = container.wait(timeout=START_TIMEOUT_S)["StatusCode"]
            if status != 0:
                raise SystemExit(f"the new engine ended with {status}:\n{container.logs(tail=40).decode()}")
        finally:
            container.remove(force=True)

    def _started(self) -> Services:
        plan, gpu = self._plan, self._options.gpu
        has_nvidia = "nvidia" in self._client.info().get("Runtimes", {})
        isolation = Isolation(gpus=(gpu,), has_cdi_only=not has_nvidia) if gpu else Isolation()
        memory_mb = inference_memory_mb(plan.model.size_bytes, has_gpus=bool(gpu))
        service = inference_service(self._home, RUN_ID, current_owner(), plan.engine, memory_mb, isolation=isolation)
        started = start_services(self._client, self._home, [service, self._scorer()], START_TIMEOUT_S)
        services = Services(InferenceClient(started[0].socket), ScorerClient(started[1].socket))
        self._info = services.inference.info().model_dump(mode="json")
        return services

    def _scorer(self) -> Any:
        image, folder = self._plan.images["scorer"], self._plan.benchmark.path
        return scorer_service(self._home, RUN_ID, current_owner(), image, folder)

    def _asleep(self, services: Services) -> None:
        services.inference.sleep()

    def _scored(self, name: str, model: str, services: Services, begun: float | None = None) -> None:
        asked = time.monotonic()
        key = EvaluationKey(task_protocol="bench", engine_hash="bench", base_model_hash="bench", tree_hash=model)
        made = evaluate(Subject(self._plan, key, Path("/models") / model, LIMIT_S), self._items, services)
        total = time.monotonic() - (asked if begun is None else begun)
        self._add(_scoring(name, made, total, start=0.0 if begun is None else asked - begun))

    def _add(self, scoring: Scoring) -> None:
        first = self.scorings[0].items if self.scorings else scoring.items
        if "another" not in scoring.name:
            pairs = list(zip(scoring.items, first, strict=True))
            scoring.different_answers = sum(mine[0] != its[0] for mine, its in pairs)
            scoring.different_scores = sum(mine[1] != its[1] for mine, its in pairs)
        self.scorings.append(scoring)
        print(json.dumps(scoring.shown()), flush=True, file=sys.stderr)
        if self._options.out:
            self._options.out.write_text(json.dumps(self.figures(), indent=2))

    def figures(self) -> dict[str, Any]:
        ratio = self._ratio()
        return {
            "machine": self._where,
            "engine": self._info,
            "spec": self._plan.engine.model_dump(mode="json"),
            "items": len(self._items),
            "scorings": [scoring.shown() for scoring in self.scorings],
            **({} if ratio is None else {"new_engine_over_warm": ratio}),
        }

    def _ratio(self) -> dict[str, float] | None:
        warm = [s.total_seconds for s in self.scorings if s.name.startswith("ours, warm") and "another" not in s.name]
        found = {}
        for kind in ("empty cache", "warm cache"):
            theirs = [s.total_seconds for s in self.scorings if s.name.startswith(f"new engine, {kind}")]
            if warm and theirs:
                found[kind] = round(median(theirs) / median(warm), 2)
        return found or None

    def lines(self) -> list[str]:
        head = f"{len(self._items)} items of {self._plan.benchmark.id}; seconds; items unlike the first scoring's"
        lines = [head, f"{'':38} total  start   load    gen  score  tokens/s  score  answers scores"]
        for s in self.scorings:
            speed = s.output_tokens / s.generate_seconds
            lines.append(
                f"{s.name:38}{s.total_seconds:6.1f} {s.start_seconds:6.1f} {s.load_seconds:6.2f} "
                f"{s.generate_seconds:6.1f} {s.score_seconds:6.2f} {speed:9.0f} {s.score_pct:6.2f} "
                f"{s.different_answers:8} {s.different_scores:6}"
            )
        if ratio := self._ratio():
            lines += [f"a new engine ({kind}) takes {times:.2f} times as long" for kind, times in ratio.items()]
        return lines

    def _planned(self) -> RunPlan:
        options, folder = self._options, ROOT / "benchmarks" / self._options.task
        images = self._images()
        config = BenchmarkConfig.model_validate(yaml.safe_load((folder / "config.yaml").read_text()))
        size = sum(path.stat().st_size for path in (self._home.models / "base").iterdir())
        gpus = (options.gpu,) if options.gpu else ()
        engine = engine_spec(images["inference"], hardware_of(gpus, chosen(list_gpus(), gpus)), size)
        return RunPlan(
            run_id=RUN_ID,
            created_at=datetime.now(UTC),
            agent=Agent(id="bench", path=folder, digest="", config=AgentConfig(name="bench")),
            benchmark=Benchmark(id=options.task, path=folder, digest="", config=config),
            model=ModelRef(
                repo_id="base",
                revision="local",
                path=Path("models/base"),
                tree_hash=tree_hash(self._home.models / "base"),
                size_bytes=size,
            ),
            data=DataRef(
                train_path=Path("train"),
                eval_path=Path("eval"),
                eval_hash="",
                train_items=0,
                eval_items=len(self._items),
            ),
            protocol=Protocol.STANDARD,
            limits=Limits(),
            images=images,
            gpus=gpus,
            engine=EngineSpec.model_validate({**engine.model_dump(), **json.loads(options.spec)}),
        )

    def _images(self) -> dict[str, str]:
        options = self._options
        if options.image and options.scorer_image:
            return {"inference": options.image, "scorer": options.scorer_image}
        from harness.sandbox.images import expected_tags

        tags = expected_tags(ROOT, "gpu" if options.gpu else "cpu", os.environ.get("HARNESS_BASE_IMAGE", ""))
        return {
            "inference": options.image or tags["inference"],
            "scorer": options.scorer_image or tags["scorer"],
        }


def _scoring(name: str, made: NewEvaluation, total: float, start: float) -> Scoring:
    results: Sequence[ItemResult] = made.items
    return Scoring(
        name=name,
        total_seconds=total,
        start_seconds=start,
        load_seconds=made.load_seconds,
        generate_seconds=made.generate_seconds,
        score_seconds=made.score_seconds,
        output_tokens=sum(item.output_tokens for item in results),
        score_pct=100 * sum(item.score for item in results) / len(results),
        items=tuple((item.output, item.score) for item in results),
    )


def _device(client: DockerClient, gpu: str) -> dict[str, Any]:
    if "nvidia" in client.info().get("Runtimes", {}):
        return {"device_ids": [gpu], "capabilities": [["gpu"]]}
    return {"driver": "cdi", "device_ids": [f"nvidia.com/gpu={gpu}"]}


def _items(path: Path, limit: int | None) -> list[Item]:
    with path.open(encoding="utf-8") as lines:
        return select([parse_item(json.loads(line)) for line in lines if line.strip()], limit)


def _copied(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(0o644)
    target.chmod(0o755)


def _altered(source: Path, target: Path) -> None:
    """The checkpoint with the lowest bit of every matrix element flipped: other bytes, so that a load is a load."""
    _copied(source, target)
    for path in target.glob("*.safetensors"):
        with path.open("rb") as file:
            header = read_header(file, path)
        content = np.memmap(path, dtype=np.uint8, mode="r+")
        for place in header.placements:
            width = {"BF16": 2, "F16": 2, "F32": 4}.get(place.info.dtype)
            if width and len(place.info.shape) > 1:
                begin, end = header.data_start + place.begin, header.data_start + place.end
                content[begin:end:width] ^= 1
        content.flush()


if __name__ == "__main__":
    main()
