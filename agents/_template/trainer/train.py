"""Trains the base model to give the answers of the train data, saves it, and submits it: a place to begin."""

import json
import os
import random
import time
import urllib.error
import urllib.request
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH, LEARNING_RATE, MAX_TOKENS = 16, 1e-4, 512
GRADER = os.environ["GRADING_SERVER_URL"]
MODEL, DATA, OUTPUT = (os.environ[name] for name in ("MODEL_PATH", "DATA_PATH", "OUTPUT_DIR"))


def call(path, body=None):
    """The grader's reply; what it refuses is printed, with the reason."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(GRADER + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{path}: HTTP {error.code}: {error.read().decode(errors='replace')}") from error


def tokens(tokenizer, question, answer):
    """The item as the model sees it, and how many of its tokens are the question's."""
    chat = [{"role": "user", "content": question}]
    if tokenizer.chat_template:
        asked = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    else:
        asked = question
    prompt = tokenizer(asked, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    said = tokenizer(answer, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    return (prompt + said)[:MAX_TOKENS], len(prompt)


def loss_of(model, batch, padding):
    """Mean loss of the answers' tokens."""
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([ids + [padding] * (longest - len(ids)) for ids, _ in batch], device=model.device)
    labels = torch.full_like(ids, -100)
    for row, (item, n_prompt) in enumerate(batch):
        labels[row, n_prompt : len(item)] = ids[row, n_prompt : len(item)]
    mask = (torch.arange(longest)[None] < torch.tensor([len(item) for item, _ in batch])[:, None]).to(model.device)
    return model(input_ids=ids, attention_mask=mask.long(), labels=labels).loss


def main():
    random.seed(int(os.environ["SEED"]))
    torch.manual_seed(int(os.environ["SEED"]))
    until = time.monotonic() + min(float(os.environ["TRAIN_S"]), call("/time")["remaining"] / 4)
    is_gpu = torch.cuda.is_available()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16 if is_gpu else torch.float32)
    model.to("cuda" if is_gpu else "cpu").train()
    items = [json.loads(line) for line in (Path(DATA) / "train.jsonl").open(encoding="utf-8")]
    items = [tokens(tokenizer, item["question"], item["answer"]) for item in items]
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    step = 0
    while time.monotonic() < until:
        loss = loss_of(model, random.sample(items, min(BATCH, len(items))), tokenizer.eos_token_id)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % 20 == 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    folder = Path(OUTPUT) / "v1"
    # Not Trainer.save_model: it leaves a pickle, which is refused.
    model.save_pretrained(folder)
    del model, optimizer
    reply = call("/submit", {"model_path": str(folder)})
    print(json.dumps(reply), flush=True)
    with Path("summary.md").open("a") as notes:
        notes.write(f"- {step} steps on the answers, learning rate {LEARNING_RATE:g}: score {reply['score']}\n")


if __name__ == "__main__":
    main()
