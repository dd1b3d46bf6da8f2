"""Makes `tiny-arith`, a base model that adds badly, and the `oracle` agent's checkpoint, which adds well.

    python train_tiny_arith.py     a few minutes on one core; needs torch and transformers

First the model learns to add: that is the oracle. Then it learns a bad habit, from sums in which carries are forgotten
more often than not (37+45=72): that is the base model. Left to its most likely answer it is right about one time in
three, but the right answers are still among the likely ones, so training by reward has something to find.

Only train items of `data.py` are used. Seeded and on one thread, so that one type of machine gives the same bytes every
time; another can round differently, so the files are kept here.
"""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import string
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
BASE = HERE / "tiny-arith"
ORACLE = HERE.parents[2] / "agents" / "oracle" / "checkpoints" / "arithmetic"

PAD, UNKNOWN, SYSTEM, USER, ASSISTANT, END = "<pad>", "<unk>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL = [PAD, UNKNOWN, SYSTEM, USER, ASSISTANT, END]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
MAX_POSITIONS = 4096  # rotary positions cost no weights; the model can be run on texts that it cannot answer

SEED = 7
BATCH = 128
IGNORED = -100  # the label that the loss skips


@dataclass(frozen=True)
class Lesson:
    """What a phase of training teaches: `forgetting` is the share of sums that are given without carries."""

    steps: int
    rate: float
    forgetting: float


LEARN = Lesson(steps=900, rate=2e-3, forgetting=0.0)
SPOIL = Lesson(steps=200, rate=1e-3, forgetting=0.75)


def load_data_module():
    """The benchmark's `data.py`."""
    spec = importlib.util.spec_from_file_location("arithmetic_data", HERE.parent / "data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token per printable ASCII character, six special ones, and a chat template."""
    characters = [c for c in string.printable if c not in "\r\x0b\x0c"]
    vocabulary = {token: index for index, token in enumerate(SPECIAL + characters)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama of about 0.6 million parameters with random weights."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=344,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=MAX_POSITIONS,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def chat(question: str) -> str:
    """The text that the chat template makes of one question."""
    return f"{USER}{question}{END}{ASSISTANT}"


def without_carries(first: int, second: int) -> int:
    """The sum as somebody gets it who forgets every carry: 37+45 is 72."""
    return (first // 10 + second // 10) % 10 * 10 + (first + second) % 10


def draw_batch(vocabulary, pairs, forgetting: float, rng: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (both BATCH x length), right-padded; only the answer counts in the loss."""
    rows = []
    for first, second in rng.choices(pairs, k=BATCH):
        total = without_carries(first, second) if rng.random() < forgetting else first + second
        prompt = [vocabulary[token] for token in (USER, *f"{first}+{second}=", END, ASSISTANT)]
        rows.append((prompt, [vocabulary[token] for token in (*str(total), END)]))
    length = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((BATCH, length), vocabulary[PAD])
    labels = torch.full((BATCH, length), IGNORED)
    for row, (prompt, answer) in enumerate(rows):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    return ids, labels


def train(model, tokenizer, pairs, lesson: Lesson, rng: random.Random) -> None:
    """AdamW with warm-up and linear decay."""
    vocabulary, steps = tokenizer.get_vocab(), lesson.steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=lesson.rate, weight_decay=0.01)
    warmup = min(50, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup))
    )
    model.train()
    for step in range(steps):
        ids, labels = draw_batch(vocabulary, pairs, lesson.forgetting, rng)
        loss = model(input_ids=ids, labels=labels, attention_mask=(ids != tokenizer.pad_token_id).long()).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def accuracy(model, tokenizer, pairs) -> float:
    """Share of `pairs` that the model adds rightly, greedy."""
    model.eval()
    right = 0
    for start in range(0, len(pairs), 100):
        part = pairs[start : start + 100]
        batch = tokenizer([chat(f"{a}+{b}=") for a, b in part], return_tensors="pt", padding=True)
        output = model.generate(**batch, max_new_tokens=8, do_sample=False)
        texts = tokenizer.batch_decode(output[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
        right += sum(text.strip() == str(a + b) for text, (a, b) in zip(texts, part, strict=True))
    return right / len(pairs)


def tidy(folder: Path) -> None:
    """Makes the folder load in transformers 4 as well as 5, and readable by others."""
    config = json.loads((folder / "config.json").read_text())
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer["tokenizer_class"] = "PreTrainedTokenizerFast"
    tokenizer["additional_special_tokens"] = tokenizer.pop("extra_special_tokens")
    tokenizer["model_input_names"] = ["input_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2) + "\n")
    for path in folder.iterdir():
        path.chmod(0o644)


def save_oracle(model) -> None:
    """Writes the weights alone: everything else of a checkpoint comes from the base model."""
    unfinished = ORACLE.with_name(".unfinished")
    model.save_pretrained(unfinished)
    ORACLE.mkdir(parents=True, exist_ok=True)
    (unfinished / "model.safetensors").replace(ORACLE / "model.safetensors")
    (ORACLE / "model.safetensors").chmod(0o644)
    shutil.rmtree(unfinished)


def save_base(model, tokenizer) -> None:
    """Writes the complete folder of tiny-arith."""
    shutil.rmtree(BASE, ignore_errors=True)
    model.save_pretrained(BASE)
    tokenizer.save_pretrained(BASE)
    tidy(BASE)


def report(name: str, model, tokenizer, data) -> None:
    """Prints how well the model adds."""
    for items, pairs in (("train", data.train_pairs()[:1000]), ("hidden", data.hidden_pairs())):
        print(f"{name}: greedy accuracy on {items} items {100 * accuracy(model, tokenizer, pairs):.1f} %", flush=True)


def main() -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    data, rng = load_data_module(), random.Random(SEED)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    train(model, tokenizer, data.train_pairs(), LEARN, rng)
    report("oracle", model, tokenizer, data)
    save_oracle(model)
    train(model, tokenizer, data.train_pairs(), SPOIL, rng)
    report("tiny-arith", model, tokenizer, data)
    save_base(model, tokenizer)


if __name__ == "__main__":
    main()
