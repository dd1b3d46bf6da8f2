"""A Hugging Face folder as a model in memory with its tokenizer; kept while folders differ in weights only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM
from transformers.initialization import no_init_weights

from harness.errors import LoadFailed
from harness.inference.engines.setup import LOCAL, Setup, read_setup
from harness.inference.engines.weights import check_finite, copy_weights, names_fit

DEFECTS = {"missing_keys": "is missing", "unexpected_keys": "is unknown", "mismatched_keys": "has another shape"}


@dataclass(frozen=True)
class Frame:
    """A loaded model; `is_in_place` where further weights of the same set-up can be copied into it."""

    setup: Setup
    model: Any
    is_in_place: bool


def read_frame(folder: Path, digest: str, dtype: Any, device: Any) -> Frame:
    """The model in `folder` with its weights, on `device`; `digest` names the folder's set-up.

    Raises:
        LoadFailed: the weights are not exactly those of the architecture, or not finite.
    """
    setup = read_setup(folder, digest)
    # Nothing is mapped from a file: parameters are torch's own memory (huge pages), and every load copies into them.
    with no_init_weights():
        model = AutoModelForCausalLM.from_config(setup.config, dtype=dtype, trust_remote_code=False)
    model.tie_weights()
    is_in_place = names_fit(model, folder)
    if is_in_place:
        model = model.requires_grad_(False).to(device)
        copy_weights(model, folder)
    else:
        model = _converted(folder, dtype).to(device)
    return Frame(setup=setup, model=model.eval(), is_in_place=is_in_place)


def _converted(folder: Path, dtype: Any) -> Any:
    """The model where transformers has to rename or merge tensors (some experts, GPT-NeoX): read anew every time."""
    model, told = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **LOCAL
    )
    for kind, words in DEFECTS.items():
        if told.get(kind):
            raise LoadFailed(f"tensor {sorted(map(str, told[kind]))[0]} {words} ({len(told[kind])} in all)")
    model.requires_grad_(False)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    model.tie_weights()
    check_finite(model)
    return model
