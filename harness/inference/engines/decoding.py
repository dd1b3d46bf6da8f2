"""One left-padded batch of token ids to completions: greedy or seeded, each row to its own end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from transformers import DynamicCache

from harness.inference.engines.rows import IsEnd, Row

SMALLEST = 1e-20


@dataclass(frozen=True)
class Drawing:
    """How the next token is drawn; temperature 0 is greedy. `pad` fills up on the left."""

    temperature: float
    pad: int
    device: Any


def complete(model: Any, rows: Sequence[Row], drawing: Drawing, is_end: IsEnd) -> None:
    """Runs all rows (each with a cap above 0) to their ends, in place."""
    live = list(rows)
    noise = [torch.Generator().manual_seed(row.seed) for row in live] if drawing.temperature > 0 else []
    with torch.inference_mode():
        ids, mask = _padded(live, drawing)
        width = ids.shape[1]
        positions = (mask[:, :width].cumsum(-1) - 1).clamp(min=0)
        cache = DynamicCache(config=model.config)
        known_as = {_cache_name(model): cache}
        while True:
            logits = model(
                input_ids=ids,
                attention_mask=mask[:, :width],
                position_ids=positions,
                **known_as,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            drawn = _draw(logits.float(), noise, drawing)
            for row, token in zip(live, drawn.tolist(), strict=True):
                row.add(token, is_end)
            kept = [k for k, row in enumerate(live) if not row.is_done]
            if not kept:
                return
            width, positions = width + 1, positions[:, -1:] + 1
            # A few long answers must not pay for the whole batch; halving keeps copies of the cache rare.
            if 2 * len(kept) <= len(live):
                index = torch.tensor(kept, device=drawing.device)
                cache.batch_select_indices(index)
                drawn, mask, positions = drawn[index], mask[index], positions[index]
                live, noise = [live[k] for k in kept], [noise[k] for k in kept if noise]
            ids = drawn[:, None]


def _cache_name(model: Any) -> str:
    # Renamed in transformers 5.2x; a model ignores the name that it does not know, and forgets what it has read.
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def _padded(rows: Sequence[Row], drawing: Drawing) -> tuple[Any, Any]:
    width = max(len(row.prompt) for row in rows)
    longest = width + max(row.cap for row in rows)
    ids = torch.full((len(rows), width), drawing.pad, dtype=torch.long)
    mask = torch.ones((len(rows), longest), dtype=torch.long)
    for k, row in enumerate(rows):
        start = width - len(row.prompt)
        ids[k, start:] = torch.tensor(row.prompt, dtype=torch.long)
        mask[k, :start] = 0
    return ids.to(drawing.device), mask.to(drawing.device)


def _draw(logits: Any, noise: list[Any], drawing: Drawing) -> Any:
    if drawing.temperature <= 0:
        return logits.argmax(-1)
    # Gumbel-max with a generator for each row: a row's draws do not depend on its neighbours.
    uniform = torch.stack([torch.rand(logits.shape[-1], generator=generator) for generator in noise])
    gumbel = -torch.log(-torch.log(uniform.clamp(min=SMALLEST, max=1 - 2**-24)))
    return (logits / drawing.temperature + gumbel.to(logits.device)).argmax(-1)
