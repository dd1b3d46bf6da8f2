"""So many training steps on made-up tokens, after some that do not count: prints one line of JSON with steps a second.

The same file runs inside an agent's container and outside of any; it reads $MODEL_PATH, $STEPS, $BATCH and $TOKENS.
"""

from __future__ import annotations

import json
import os
import time

import torch
from transformers import AutoModelForCausalLM

WARM_UP_STEPS = 10


def main() -> None:
    steps, batch, tokens = (int(os.environ[name]) for name in ("STEPS", "BATCH", "TOKENS"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL_PATH"], dtype=torch.float32).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(10, model.config.vocab_size - 10, (batch, tokens), device=device)

    def step() -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(WARM_UP_STEPS):
        step()
    _wait(device)
    begun = time.monotonic()
    for _ in range(steps):
        step()
    _wait(device)
    seconds = time.monotonic() - begun
    print(json.dumps({"steps_per_s": steps / seconds, "device": device, "torch": torch.__version__}), flush=True)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
