"""The task as an agent sees it: train items, the way questions are put, and a reward for an answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

MARK = "####"
# GSM8K's solutions carry calculator marks: `48/2 = <<48/2=24>>24`.
CALCULATOR = re.compile(r"<<[^<>]*>>")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
# Writing the mark and a number earns this much by itself: a model that is nearly never right gets no other signal.
FORMAT_REWARD = 0.1


@dataclass(frozen=True)
class Task:
    """Train items, and how the grader asks (from `config.yaml`, where the benchmark shows it)."""

    items: list[dict]
    prompt: str = "{question}"
    system: str | None = None
    few_shot: list[dict] = field(default_factory=list)
    max_tokens: int | None = None

    @property
    def is_marked(self) -> bool:
        """Whether answers are solutions that end in `#### number`, rather than the bare answer."""
        return MARK in self.items[0]["answer"]

    def messages(self, question: str, with_examples: bool) -> list[dict]:
        """The chat that the grader would send for this question."""
        chat = [{"role": "system", "content": self.system}] if self.system else []
        for example in self.few_shot if with_examples else []:
            chat.append({"role": "user", "content": self.prompt.replace("{question}", example["question"])})
            chat.append({"role": "assistant", "content": example["answer"]})
        return [*chat, {"role": "user", "content": self.prompt.replace("{question}", question)}]

    def solution(self, item: dict) -> str:
        """A train item's worked solution, as a model should write it."""
        return CALCULATOR.sub("", item["answer"])

    def longest_answer(self) -> int:
        """Characters in the longest answer that has to be written."""
        return max(len(item["answer"]) for item in self.items)


def load_task(workspace: Path, data: Path) -> Task:
    """The task in `data/train.jsonl` and, if the benchmark exposes it, `config.yaml`."""
    with (data / "train.jsonl").open(encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines if line.strip()]
    config = workspace / "config.yaml"
    shown = yaml.safe_load(config.read_text(encoding="utf-8")) if config.is_file() else {}
    known = ("prompt", "system", "few_shot", "max_tokens")
    return Task(items=items, **{key: shown[key] for key in known if key in shown})


def reward(text: str, answer: str) -> float:
    """1 for a right answer (whole text, or the number after `####`), else a little for the right form, else 0."""
    if MARK not in answer:
        return float(text.strip() == answer.strip())
    expected = _number(answer.rpartition(MARK)[2])
    if MARK not in text:
        return float(bool(text.strip()) and _last_number(text) == expected) * (1 - FORMAT_REWARD)
    stated = _number(text.split(MARK)[1])
    return 0.0 if stated is None else 1.0 if stated == expected else FORMAT_REWARD


def _number(text: str) -> float | None:
    match = NUMBER.search(text)
    return float(match.group().replace(",", "")) if match else None


def _last_number(text: str) -> float | None:
    matches = NUMBER.findall(text)
    return float(matches[-1].replace(",", "")) if matches else None
