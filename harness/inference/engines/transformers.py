"""The `transformers` engine: CPU or one GPU, in fixed batches sorted by content, so that equal requests repeat."""

from __future__ import annotations

import gc
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from harness.domain.prompts import Prompt
from harness.domain.specs import EngineSpec
from harness.errors import EvaluationFailed, HarnessError, LoadFailed, UsageError
from harness.inference.engines.decoding import Drawing, complete
from harness.inference.engines.frame import Frame, read_frame
from harness.inference.engines.machine import cpu_name
from harness.inference.engines.rows import completion_of, in_order, make_rows
from harness.inference.engines.stopping import StopRule
from harness.inference.engines.weight_files import setup_digest, weights_identity
from harness.inference.engines.weights import copy_weights
from harness.inference.wire import Completion, EngineInfo, Sampling

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors")


class TransformersEngine:
    """An `Engine` on Hugging Face transformers."""

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._device = torch.device("cpu" if spec.device.startswith("cpu") else "cuda")
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise EvaluationFailed(f"the engine is to run on {spec.device}, but torch finds no GPU")
        torch.set_num_threads(spec.threads)
        torch.use_deterministic_algorithms(True)
        # Only costs: no result depends on memory that nobody wrote.
        torch.utils.deterministic.fill_uninitialized_memory = False
        self._frame: Frame | None = None
        self._loaded: object = None
        self._is_asleep = False

    def info(self) -> EngineInfo:
        """See `Engine`."""
        versions = {name: version(name) for name in PACKAGES} | {"python": platform.python_version()}
        name = torch.cuda.get_device_name() if self._device.type == "cuda" else cpu_name()
        return EngineInfo(spec=self._spec, versions=versions, device_name=name)

    def load(self, folder: Path) -> bool:
        """See `Engine`."""
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}", "The snapshot store is not mounted where the request says.")
        digest, identity = setup_digest(folder), (folder, weights_identity(folder))
        self._is_asleep = False
        if self._frame is not None and self._loaded == (digest, identity):
            return True
        self._loaded = None
        try:
            if self._frame is not None and self._frame.setup.digest == digest and self._frame.is_in_place:
                copy_weights(self._frame.model, folder)
            else:
                # The memory of the old model is needed for the new one.
                self._frame = None
                self._frame = read_frame(folder, digest, getattr(torch, self._spec.dtype), self._device)
        except (HarnessError, MemoryError, OSError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            # An edge: whatever these bytes make the libraries raise is said of the bytes.
            raise LoadFailed(f"{type(error).__name__}: {error}") from error
        self._loaded = (digest, identity)
        return False

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """See `Engine`."""
        if self._frame is None or self._loaded is None or self._is_asleep:
            raise UsageError("no weights are loaded", "POST /load first.")
        model, setup = self._frame.model, self._frame.setup
        rows = make_rows(prompts, setup.tokenizer, sampling, setup.max_positions)
        rule = StopRule(setup.tokenizer, setup.end_tokens, sampling.stop)
        pad = setup.tokenizer.pad_token_id
        drawing = Drawing(sampling.temperature, 0 if pad is None else pad, self._device)
        # Sorted, so that the order of a request does not decide who shares a batch with whom.
        open_rows = in_order(rows)
        for start in range(0, len(open_rows), self._spec.batch_size):
            complete(model, open_rows[start : start + self._spec.batch_size], drawing, rule.is_end)
        return [completion_of(row, rule) for row in rows]

    def sleep(self) -> None:
        """See `Engine`. On a GPU the model is dropped, and read anew at the next load."""
        self._is_asleep = True
        if self._device.type == "cuda":
            self._frame = self._loaded = None
            gc.collect()
            torch.cuda.empty_cache()
