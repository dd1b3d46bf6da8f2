"""The `vllm` engine: in this process, built at the first load, kept; further weights of its set-up go in place."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
import vllm
from loguru import logger
from vllm import LLM, SamplingParams, TokensPrompt
from vllm.sampling_params import RepetitionDetectionParams

from harness.domain.prompts import Prompt
from harness.domain.specs import EngineSpec
from harness.errors import EngineBroken, HarnessError, LoadFailed, UsageError
from harness.inference.engines.checks import checked_places, expected_by
from harness.inference.engines.machine import cpu_name, driver_versions
from harness.inference.engines.rows import Row, completion_of, in_order, make_rows
from harness.inference.engines.setup import Setup, read_setup
from harness.inference.engines.stopping import StopRule
from harness.inference.engines.vllm_build import (
    check_surroundings,
    close_llm,
    context_of,
    is_cpu,
    open_llm,
    settings_of,
)
from harness.inference.engines.vllm_memory import MemoryNeed, check_free, memory_need
from harness.inference.engines.vllm_worker import compare_samples, reload, zero_memory
from harness.inference.engines.weight_files import Expected, Places, n_weights, setup_digest, weights_identity
from harness.inference.wire import Completion, EngineInfo, Sampling

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors")
CANARY = tuple(Prompt(text=text) for text in ("1, 2, 3, 4,", "Once upon a time", "def add(a, b):", "The capital of"))
CANARY_SAMPLING = Sampling(max_tokens=24)
ENDINGS = ("stop", "length", "repetition")


class VllmEngine:
    """An `Engine` on vLLM.

    Where it raises `EngineBroken` nothing is known of its state: it must not be used again.
    """

    def __init__(self, spec: EngineSpec) -> None:
        check_surroundings(spec)
        self._spec = spec
        self._is_cpu = is_cpu(spec)
        self._frame: _Frame | None = None
        self._loaded: object = None
        self._is_asleep = False

    def info(self) -> EngineInfo:
        """See `Engine`."""
        versions = {name: version(name) for name in PACKAGES}
        versions |= {"vllm": vllm.__version__, "python": platform.python_version()}
        settings = {name: str(value) for name, value in settings_of(self._spec).items()}
        if self._is_cpu:
            return EngineInfo(spec=self._spec, versions=versions, device_name=cpu_name(), settings=settings)
        versions |= {"cuda": str(torch.version.cuda), **driver_versions()}
        name = torch.cuda.get_device_name()
        return EngineInfo(spec=self._spec, versions=versions, device_name=name, settings=settings)

    def load(self, folder: Path) -> bool:
        """See `Engine`."""
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}", "The snapshot store is not mounted where the request says.")
        digest, identity = setup_digest(folder), (folder, weights_identity(folder))
        if self._loaded == (digest, identity):
            self._is_asleep = False
            return True
        self._loaded = None
        if self._frame is None or self._frame.setup.digest != digest or not self._frame.is_in_place:
            self._build(folder, digest)
        else:
            with _said_of_the_bytes():
                places = self._checked(folder, self._frame.setup, self._frame.expected)
            self._reload(folder, places)
        self._loaded = (digest, identity)
        return False

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """See `Engine`."""
        if self._frame is None or self._loaded is None or self._is_asleep:
            raise UsageError("no weights are loaded", "POST /load first.")
        rows, rule = self._answered(prompts, sampling)
        return [completion_of(row, rule) for row in rows]

    def sleep(self) -> None:
        """See `Engine`. vLLM has no sleep on a CPU: only the rule holds there that a load must follow."""
        if self._frame is None or self._is_asleep:
            return
        self._is_asleep = True
        if self._is_cpu:
            return
        self._loaded = None
        with _trusted("sleep"):
            self._frame.llm.collective_rpc(zero_memory)
            self._frame.llm.sleep(level=2)

    def _build(self, folder: Path, digest: str) -> None:
        """A new engine with these weights; the old one's memory is needed for it."""
        if self._frame is not None and not self._is_cpu:
            # CuMemAllocator, behind sleep, serves one engine for the life of a process. A run has one set-up.
            raise EngineBroken("a model of another set-up needs another process")
        with _said_of_the_bytes():
            setup = read_setup(folder, digest)
            expected = expected_by(setup, folder)
            places = self._checked(folder, setup, expected)
        need = memory_need(self._spec, n_weights(places), setup.config)
        with _trusted("closing the engine before it"):
            self._close()
        if not self._is_cpu:
            check_free(self._spec.tensor_parallel, need.to_build)
        with _trusted("building the engine"):
            llm = open_llm(self._spec, folder, need.kv_cache, context_of(self._spec, setup))
        # vLLM repacks experts for a CPU, and cannot put others in their place.
        is_in_place = not (self._is_cpu and expected.is_renamed)
        self._frame = _Frame(llm, setup, expected, need, is_in_place)
        self._compare(places)
        if is_in_place:
            self._check_canary(folder, places)

    def _close(self) -> None:
        if self._frame is not None:
            llm, self._frame = self._frame.llm, None
            close_llm(llm)
        self._is_asleep = False

    def _checked(self, folder: Path, setup: Setup, expected: Expected) -> Places:
        architecture = (setup.config.architectures or ["the model"])[0]
        return checked_places(folder, expected, getattr(torch, self._spec.dtype), architecture)

    def _reload(self, folder: Path, places: Places) -> None:
        """These weights into the engine that is there, woken if it sleeps."""
        frame = self._the_frame()
        is_waking = self._is_asleep and not self._is_cpu
        if is_waking:
            check_free(self._spec.tensor_parallel, frame.need.to_wake)
        with _trusted("reloading weights"):
            if is_waking:
                frame.llm.wake_up(tags=["weights"])
            frame.llm.collective_rpc(reload, args=(str(folder),))
            if is_waking:
                frame.llm.wake_up(tags=["kv_cache"])
        self._is_asleep = False
        self._compare(places)

    def _compare(self, places: Places) -> None:
        """Raises EngineBroken where the weights in use are not those of the files."""
        frame = self._the_frame()
        by_name = {name: str(file) for name, file in places.items()}
        with _trusted("comparing weights"):
            told = frame.llm.collective_rpc(compare_samples, args=(by_name, frame.expected.twins_of()))
            for n_compared, differing in told:
                if differing:
                    raise EngineBroken(f"{differing[0]} on the device is not what was loaded ({len(differing)} differ)")
                if not n_compared:
                    logger.warning("no tensor of this architecture can be compared with its file")

    def _check_canary(self, folder: Path, places: Places) -> None:
        """Once for each engine: a fresh load's answers are those after sleep and reload of the same weights."""
        fresh, _ = self._answered(CANARY, CANARY_SAMPLING)
        self.sleep()
        self._reload(folder, places)
        again, _ = self._answered(CANARY, CANARY_SAMPLING)
        if [row.tokens for row in fresh] != [row.tokens for row in again]:
            raise EngineBroken("the canary's answers after sleep and reload are not those of the fresh engine")

    def _answered(self, prompts: Sequence[Prompt], sampling: Sampling) -> tuple[list[Row], StopRule]:
        frame = self._the_frame()
        rows = make_rows(prompts, frame.setup.tokenizer, sampling, frame.llm.model_config.max_model_len)
        rule = StopRule(frame.setup.tokenizer, frame.setup.end_tokens, sampling.stop)
        open_rows = in_order(rows)
        if open_rows:
            with _trusted("generate"):
                _complete(frame.llm, open_rows, sampling, rule)
        return rows, rule

    def _the_frame(self) -> _Frame:
        if self._frame is None:
            raise EngineBroken("there is no engine")
        return self._frame


@dataclass(frozen=True)
class _Frame:
    """An engine and what belongs to its set-up."""

    llm: LLM
    setup: Setup
    expected: Expected
    need: MemoryNeed
    is_in_place: bool


def _complete(llm: LLM, rows: Sequence[Row], sampling: Sampling, rule: StopRule) -> None:
    """Runs all rows to their ends, in place."""
    # What was asked before must not decide which blocks are found computed.
    if not llm.reset_prefix_cache():
        raise EngineBroken("the prefix cache cannot be reset")
    prompts = [TokensPrompt(prompt_token_ids=list(row.prompt)) for row in rows]
    outputs = llm.generate(prompts, [_parameters(row, sampling, rule) for row in rows], use_tqdm=False)
    for row, output in zip(rows, outputs, strict=True):
        said = output.outputs[0]
        if said.finish_reason not in ENDINGS:
            raise EngineBroken(f"an answer ended by {said.finish_reason!r}")
        # The same rules as every engine's: vLLM only ends an answer early enough.
        for token in said.token_ids:
            row.add(token, rule.is_end)
        if not row.is_done:
            row.is_truncated = said.finish_reason != "stop"


def _parameters(row: Row, sampling: Sampling, rule: StopRule) -> SamplingParams:
    is_greedy = sampling.temperature <= 0
    guard = row.guard
    return SamplingParams(
        temperature=max(0.0, sampling.temperature),
        seed=None if is_greedy else row.seed,
        max_tokens=row.cap,
        stop=list(rule.strings) or None,
        stop_token_ids=sorted(rule.end_tokens),
        ignore_eos=True,
        detokenize=bool(rule.strings),
        repetition_detection=guard
        and RepetitionDetectionParams(max_pattern_size=guard.max_pattern, min_count=guard.min_count),
    )


@contextmanager
def _trusted(what: str) -> Iterator[None]:
    """Whatever vLLM raises leaves it in a state that nothing is known of."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        raise EngineBroken(f"{what}: {type(error).__name__}: {error}") from error


@contextmanager
def _said_of_the_bytes() -> Iterator[None]:
    """Whatever these bytes make the libraries raise is said of the bytes."""
    try:
        yield
    except (HarnessError, MemoryError, OSError):
        raise
    except Exception as error:
        raise LoadFailed(f"{type(error).__name__}: {error}") from error
