"""The `transformers` engine: CPU or one GPU, in fixed batches sorted by content, so that equal requests repeat."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from harness.domain.prompts import Prompt
from harness.domain.specs import EngineSpec
from harness.errors import EvaluationFailed, HarnessError, LoadFailed, UsageError
from harness.inference.engines.decoding import Drawing, Row, complete
from harness.inference.engines.frame import Frame, read_frame
from harness.inference.engines.prompts import token_ids
from harness.inference.engines.stopping import StopRule
from harness.inference.engines.weights import copy_weights, setup_digest, weights_identity
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

    def info(self) -> EngineInfo:
        """See `Engine`."""
        versions = {name: version(name) for name in PACKAGES} | {"python": platform.python_version()}
        name = torch.cuda.get_device_name() if self._device.type == "cuda" else _cpu_name()
        return EngineInfo(spec=self._spec, versions=versions, device_name=name)

    def load(self, folder: Path) -> bool:
        """See `Engine`."""
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}", "The snapshot store is not mounted where the request says.")
        digest, identity = setup_digest(folder), (folder, weights_identity(folder))
        if self._frame is not None and self._loaded == (digest, identity):
            return True
        self._loaded = None
        try:
            if self._frame is not None and self._frame.digest == digest and self._frame.is_in_place:
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
        if self._frame is None or self._loaded is None:
            raise UsageError("no weights are loaded", "POST /load first.")
        frame = self._frame
        rows = [_row(token_ids(frame.tokenizer, prompt), sampling, frame.max_positions) for prompt in prompts]
        _set_seeds(rows, sampling.seed)
        rule = StopRule(frame.tokenizer, frame.end_tokens, sampling.stop)
        pad = frame.tokenizer.pad_token_id
        drawing = Drawing(sampling.temperature, 0 if pad is None else pad, self._device)
        # By content, so that the order of a request does not decide who shares a batch with whom.
        open_rows = sorted((row for row in rows if row.cap > 0), key=lambda row: (len(row.prompt), tuple(row.prompt)))
        for start in range(0, len(open_rows), self._spec.batch_size):
            complete(frame.model, open_rows[start : start + self._spec.batch_size], drawing, rule.is_end)
        return [
            Completion(
                text=rule.text(row.tokens),
                prompt_tokens=len(row.prompt),
                output_tokens=len(row.tokens),
                is_truncated=row.is_truncated or row.cap <= 0,
            )
            for row in rows
        ]


def _row(ids: list[int], sampling: Sampling, max_positions: int | None) -> Row:
    """A prompt that leaves no room in the model's context is not shortened: it gets an empty, truncated answer."""
    room = sampling.max_tokens if max_positions is None else min(sampling.max_tokens, max_positions - len(ids))
    return Row(prompt=ids, cap=room)


def _set_seeds(rows: Sequence[Row], seed: int) -> None:
    """Seeds by content; the n-th of several equal prompts gets a seed of its own."""
    seen: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        key = tuple(row.prompt)
        digest = hashlib.sha256(f"{seed}\0{seen[key]}\0{key}".encode()).digest()
        row.seed = int.from_bytes(digest[:8], "big") >> 1
        seen[key] += 1


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
