"""Fakes of the grader's two services: deterministic, in-process, and breakable in every way that a test needs."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from safetensors_file import LAYER

from harness.domain.specs import EngineSpec
from harness.errors import ServiceUnavailable
from harness.inference.wire import (
    Completion,
    EngineInfo,
    GenerateReply,
    GenerateRequest,
    LoadReply,
    LoadRequest,
    SleepReply,
)
from harness.scorer.wire import ItemVerdict, ScoreReply, ScoreRequest


def skill_of(folder: Path) -> float:
    """The number that a model of `safetensors_file.model_tensors` was made with."""
    (file,) = folder.glob("*.safetensors")
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    start = json.loads(raw[8 : 8 + length])[LAYER]["data_offsets"][0]
    return struct.unpack("<f", raw[8 + length + start :][:4])[0]


def is_solved(question: str, skill: float) -> bool:
    """Whether a model of this skill in [0, 1] knows the answer: about that share of all questions."""
    return int(hashlib.sha256(question.encode()).hexdigest()[:8], 16) / 2**32 < skill


@dataclass
class FakeInference:
    """Answers sums; how many of them right is the loaded model's skill. `root` is where it sees the home."""

    spec: EngineSpec
    is_up: bool = True
    loads: list[str] = field(default_factory=list)
    load_limits: list[float] = field(default_factory=list)
    generated: int = 0
    sleeps: int = 0
    requests: list[GenerateRequest] = field(default_factory=list)
    # Called before each generate; may block or raise.
    before: Callable[[], None] = lambda: None
    on_load: Callable[[str], None] = lambda path: None
    alter: Callable[[GenerateReply], GenerateReply] = lambda reply: reply
    _skill: float = 0.0

    def is_ready(self) -> bool:
        return self.is_up

    def info(self) -> EngineInfo:
        self._require_up()
        return EngineInfo(spec=self.spec, versions={"fake": "1"}, device_name="fake", settings={"block_size": "16"})

    def load(self, request: LoadRequest) -> LoadReply:
        self._require_up()
        self.on_load(request.path)
        self.loads.append(request.path)
        self.load_limits.append(request.limit_s)
        self._skill = skill_of(Path(request.path))
        return LoadReply(load_seconds=0.01, is_reused=False)

    def sleep(self) -> SleepReply:
        self._require_up()
        self.sleeps += 1
        return SleepReply(sleep_seconds=0.0)

    def generate(self, request: GenerateRequest) -> GenerateReply:
        self._require_up()
        self.requests.append(request)
        self.before()
        self.generated += 1
        texts = [self._answer(prompt.messages[-1].content) for prompt in request.prompts if prompt.messages]
        completions = tuple(
            Completion(text=text, prompt_tokens=3, output_tokens=1, is_truncated=False) for text in texts
        )
        return self.alter(GenerateReply(completions=completions, generate_seconds=0.01))

    def _answer(self, question: str) -> str:
        left, _, right = question.partition("+")
        return str(int(left) + int(right)) if right.isdigit() and is_solved(question, self._skill) else "?"

    def _require_up(self) -> None:
        if not self.is_up:
            raise ServiceUnavailable("the inference service is not there")


@dataclass
class FakeScorer:
    """Exact match."""

    is_up: bool = True
    alter: Callable[[ScoreReply], ScoreReply] = lambda reply: reply

    def is_ready(self) -> bool:
        return self.is_up

    def score(self, request: ScoreRequest) -> ScoreReply:
        verdicts = tuple(
            ItemVerdict(item_id=item.item_id, score=float(item.answer == item.reference)) for item in request.items
        )
        return self.alter(ScoreReply(verdicts=verdicts))


@dataclass
class Hold:
    """A door for `FakeInference.before`: whoever generates waits until it is opened."""

    opened: threading.Event = field(default_factory=threading.Event)
    reached: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(30)
