"""A folder's weights checked as a whole, for an engine whose own loader would take what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from harness.inference.engines.setup import Setup
from harness.inference.engines.weight_files import (
    Expected,
    Places,
    check_index,
    check_names,
    check_values,
    expected_of,
    expected_of_files,
    tensor_places,
)


def expected_by(setup: Setup, folder: Path) -> Expected:
    """What the architecture asks of weight files.

    Where it is stored under other names than it runs with (some experts, GPT-NeoX), which shows in names that are
    unknown beside ones that are missing, `folder` itself is the measure for those that follow.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(setup.config, trust_remote_code=False)
    model.tie_weights()
    expected = expected_of(model)
    places = tensor_places(folder, expected)
    is_renamed = bool(expected.unknown(places)) and bool(expected.missing(places))
    return expected_of_files(folder) if is_renamed else expected


def checked_places(folder: Path, expected: Expected, dtype: Any, architecture: str) -> Places:
    """Where each tensor is, after every one has been read once.

    Raises:
        LoadFailed: a tensor is missing, unknown, of another shape, in two files, not finite, or not as it is tied.
    """
    places = tensor_places(folder, expected)
    check_names(expected, places, architecture)
    check_index(folder)
    check_values(expected, places, dtype)
    return places
