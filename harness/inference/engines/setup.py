"""What decides everything but the weights, as a folder says it: config, tokenizer, end tokens, context length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

LOCAL = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True)
class Setup:
    """`digest` names the files that it was read from."""

    digest: str
    config: Any
    tokenizer: Any
    end_tokens: frozenset[int]
    max_positions: int | None


def read_setup(folder: Path, digest: str) -> Setup:
    """The set-up in `folder`, of which no code is run."""
    config = AutoConfig.from_pretrained(folder, **LOCAL)
    tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
    return Setup(
        digest=digest,
        config=config,
        tokenizer=tokenizer,
        end_tokens=_end_tokens(folder, config, tokenizer),
        max_positions=getattr(config.get_text_config(), "max_position_embeddings", None),
    )


def _end_tokens(folder: Path, config: Any, tokenizer: Any) -> frozenset[int]:
    ends = [config.get_text_config().eos_token_id, tokenizer.eos_token_id]
    if (folder / "generation_config.json").is_file():
        ends.append(GenerationConfig.from_pretrained(folder).eos_token_id)
    flat = [end for entry in ends for end in (entry if isinstance(entry, list | tuple) else [entry])]
    return frozenset(end for end in flat if end is not None)
