"""What every engine does; the contract suite in tests/contract/test_engine.py says it in tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.domain.prompts import Prompt
from harness.domain.specs import EngineSpec
from harness.errors import EvaluationFailed
from harness.inference.wire import Completion, EngineInfo, Sampling


class Engine(Protocol):
    """One model in memory. Calls come one at a time."""

    def info(self) -> EngineInfo:
        """What the engine really is."""

    def load(self, folder: Path) -> bool:
        """Serves the weights in `folder` from now on, awake; True if they were loaded already.

        Raises:
            LoadFailed: these weights cannot be served; nothing is loaded then.
            NoGpuMemory: others hold the memory that the engine needs; nothing is loaded then.
            EngineBroken: only a new engine helps.
            UsageError: there is no such folder.
        """

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion for each prompt; equal weights, prompts and sampling give equal completions.

        The order of the prompts does not change any completion.

        Raises:
            UsageError: nothing is loaded, or a prompt is neither a text nor a chat.
            EngineBroken: only a new engine helps.
        """

    def sleep(self) -> None:
        """Gives up GPU memory that weights and caches hold, until the next load; nothing is answered before that.

        Raises:
            EngineBroken: only a new engine helps.
        """


def build_engine(spec: EngineSpec) -> Engine:
    """The engine that `spec` names; takes the seconds that importing its libraries takes.

    Raises:
        EvaluationFailed: its libraries are not installed here, or cannot do what `spec` asks for.
    """
    try:
        return _engine(spec)
    except ModuleNotFoundError as error:
        raise EvaluationFailed(
            f"the engine {spec.engine} needs the package {error.name}, which is not installed here",
            "It is in the inference image of HARNESS_DEVICE=gpu; `harness images` builds it.",
        ) from error


def _engine(spec: EngineSpec) -> Engine:
    if spec.engine == "transformers":
        from harness.inference.engines.transformers import TransformersEngine

        return TransformersEngine(spec)
    from harness.inference.engines.vllm import VllmEngine

    return VllmEngine(spec)
