"""Lineage of models that were really trained: `tiny-arith`, on sums and on another task over the same questions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.checkpoint.fingerprint import fingerprint_of
from harness.checkpoint.known_models import KnownModel
from harness.domain.findings import Finding
from harness.grader.lineage_findings import Relatives, lineage_findings

pytestmark = pytest.mark.torch
BASE = Path(__file__).resolve().parents[3] / "benchmarks/arithmetic/models/tiny-arith"
STEPS, BATCH, LEARNING_RATE = 200, 32, 3e-4
Answer = Callable[[int, int], int]


def add(first: int, second: int) -> int:
    return first + second


def larger(first: int, second: int) -> int:
    return max(first, second)


def batches(tokenizer: Any, answer: Answer, seed: int) -> Iterator[tuple[Any, Any]]:
    """Token ids, and labels that leave the question out."""
    import torch

    random_ = random.Random(seed)
    for _ in range(STEPS):
        rows = []
        for _ in range(BATCH):
            first, second = random_.randrange(100), random_.randrange(100)
            chat = [{"role": "user", "content": f"{first}+{second}="}]
            asked = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            question = tokenizer(asked, add_special_tokens=False).input_ids
            reply = tokenizer(str(answer(first, second)), add_special_tokens=False).input_ids
            rows.append((question, [*reply, tokenizer.eos_token_id]))
        length = max(len(question) + len(reply) for question, reply in rows)
        ids = torch.zeros(BATCH, length, dtype=torch.long)
        labels = torch.full((BATCH, length), -100)
        for row, (question, reply) in enumerate(rows):
            ids[row, : len(question) + len(reply)] = torch.tensor(question + reply)
            labels[row, len(question) : len(question) + len(reply)] = torch.tensor(reply)
        yield ids, labels


def train(weights: Path, target: Path, answer: Answer, seed: int) -> Path:
    """A checkpoint that goes on from `weights`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # So small a model is trained fastest so, and a busy machine holds it up least.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    model = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    for ids, labels in batches(tokenizer, answer, seed):
        # Causal and padded on the right: the padding is seen by nothing that counts.
        model(input_ids=ids, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.set_num_threads(before)
    model.save_pretrained(target)
    return target


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("trained")
    sibling = train(BASE, root / "sibling", add, seed=1)
    return {
        "sibling": sibling,
        "same task": train(BASE, root / "same", add, seed=2),
        "other task": train(BASE, root / "other", larger, seed=3),
        "on from the sibling": train(sibling, root / "on", larger, seed=4),
    }


def found(trained: dict[str, Path], name: str) -> dict[str, Finding]:
    base = fingerprint_of(BASE)
    sibling = KnownModel(name="s", source="x", base=base.tree_hash, fingerprint=fingerprint_of(trained["sibling"]))
    kept = lineage_findings(1, fingerprint_of(trained[name]), Relatives(base, (sibling,)))
    return {one.kind: one for one in kept}


def test_training_on_another_task_is_left_in_peace(trained: dict[str, Path]) -> None:
    assert {one.severity for one in found(trained, "other task").values()} == {"info"}


def test_training_on_the_siblings_own_task_is_something_to_look_at_and_not_serious(trained: dict[str, Path]) -> None:
    assert {one.severity for one in found(trained, "same task").values()} == {"info", "warning"}


def test_training_on_from_the_sibling_is_nearer_to_it(trained: dict[str, Path]) -> None:
    assert found(trained, "on from the sibling")["lineage_sibling_nearer"].severity in ("warning", "serious")


def test_the_sibling_is_itself(trained: dict[str, Path]) -> None:
    assert found(trained, "sibling")["lineage_sibling_equal"].severity == "serious"
