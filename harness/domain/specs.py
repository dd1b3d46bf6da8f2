"""What a run is made of: benchmark, agent, model, protocol, engine, and the frozen plan of one run."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.domain.base import Frozen, canonical_hash
from harness.domain.llm import DriverLlm, Provider
from harness.domain.runs import RunKind
from harness.domain.sampling import RepetitionGuard

# Raised whenever an evaluator of ours would give the same answers another score: stored scores are then not reused.
EVALUATORS_VERSION = 1
# Of images/opencompass; in eval_mode opencompass it decides prompts and scores.
OPENCOMPASS_VERSION = "0.5.4"
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"


class EvalMode(StrEnum):
    """How hidden items are turned into scores."""

    PER_SAMPLE = "per_sample"
    OPENCOMPASS = "opencompass"
    CODE = "code"
    JUDGE = "judge"
    ENVIRONMENT = "environment"
    CUSTOM = "custom"


class Limits(Frozen):
    """What a run may use. A benchmark's config gives defaults, options of `harness run` override them."""

    timeout_s: int = Field(43_200, gt=0)
    max_submissions: int = Field(20, gt=0)
    max_submissions_per_hour: int = Field(4, gt=0)
    disk_mb: int = Field(20_000, gt=0)
    # Of the admitted checkpoints that the grader keeps; None: what follows from the base model's size.
    snapshots_mb: int | None = Field(None, gt=0)
    memory_mb: int = Field(16_000, gt=0)
    shm_mb: int = Field(1_024, gt=0)
    pids: int = Field(1_024, gt=0)
    cpus: float | None = Field(None, gt=0)
    log_mb: int = Field(50, gt=0)


class FewShot(Frozen):
    """One worked example of a prompt."""

    question: str
    answer: str


class PromptSpec(Frozen):
    """How a hidden item becomes a prompt, and how the model is sampled; part of the task protocol's hash."""

    prompt: str = "{question}"
    system: str | None = None
    chat: bool = True
    few_shot: tuple[FewShot, ...] = ()
    max_tokens: int = Field(512, gt=0)
    temperature: float = Field(0.0, ge=0)
    stop: tuple[str, ...] = ()
    # Completions drawn for each item: an item's score is the mean of theirs (pass@1); more than one for pass@k.
    samples: int = Field(1, gt=0)
    # Ends an answer that only repeats itself; it counts as cut off by the token cap.
    repetition_guard: RepetitionGuard | None = None

    @model_validator(mode="after")
    def _draws_differ(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError("samples above 1 need a temperature above 0: greedy answers are all the same")
        return self


class DataSource(Frozen):
    """Where data came from and what may be done with it."""

    source: str
    licence: str
    redistribute: bool = False


class BenchmarkConfig(PromptSpec):
    """`benchmarks/<id>/config.yaml`."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    version: str = "1"
    eval_mode: EvalMode = EvalMode.PER_SAMPLE
    expose_files: tuple[str, ...] = ()
    default_model: str | None = None
    opencompass_dataset: str | None = None
    limits: Limits = Limits()
    licence: tuple[DataSource, ...] = ()
    # File names that --data-dir must hold for this benchmark, or patterns (`*.json`) that must fit one of its files;
    # empty where data.py generates or ships its data.
    data_files: tuple[str, ...] = ()
    # Of a folder with train data only: the share of its questions that is hidden, by hash of the question.
    hidden_share: float = Field(0.5, gt=0, lt=1)
    # Mean score, 0 to 1, of answers that say nothing: above 0 only where a guess is built into the metric.
    floor: float = Field(0.0, ge=0, lt=1)
    # How many hidden items there are, as far as that is known before they are prepared: for `harness list` alone.
    hidden_items: int | None = Field(None, gt=0)
    # Field of an item's record whose value says which items belong together (a source, a task): errors are clustered.
    cluster_by: str | None = None

    def prompt_spec(self) -> PromptSpec:
        """The part of this config that decides prompts and sampling."""
        return PromptSpec(**{name: getattr(self, name) for name in PromptSpec.model_fields})


class Benchmark(Frozen):
    """A benchmark folder as found; `digest` covers every file in it."""

    id: str
    path: Path
    digest: str
    config: BenchmarkConfig


class AgentConfig(Frozen):
    """`agents/<id>/config.yaml`; `name` is for people (published ones have spaces), the folder's name is the id."""

    name: str = Field(min_length=1)
    description: str = ""
    start: str = "start.sh"
    env_vars: dict[str, str] = Field(default_factory=dict)
    # Protocols that the agent's client speaks, the first by default; in the file `none`, one name, or a list.
    llm: tuple[Provider, ...] = ()
    # Name of the driver LLM where the user gives none.
    model: str | None = None
    # Script of the folder that takes the agent's last session up again (`--continue`).
    resume: str | None = None
    # Another agent's folder beside this one, whose Dockerfile makes this one's image too.
    image_of: str | None = Field(None, pattern=NAME_PATTERN)
    # Native logs: a pattern below /workspace, and which reader understands them.
    trajectory: str | None = None
    trajectory_format: str | None = None

    @field_validator("llm", mode="before")
    @classmethod
    def _as_names(cls, value: object) -> object:
        return () if value in (None, "none") else (value,) if isinstance(value, str) else value

    @field_validator("env_vars", mode="before")
    @classmethod
    def _as_strings(cls, value: object) -> object:
        return {k: str(v) for k, v in value.items()} if isinstance(value, dict) else value


class Agent(Frozen):
    """An agent folder as found; `digest` covers every file in it."""

    id: str
    path: Path
    digest: str
    config: AgentConfig

    @property
    def image_folder(self) -> Path:
        """The folder whose Dockerfile makes its image, if that has one."""
        return self.path.parent / self.config.image_of if self.config.image_of else self.path


class ModelRef(Frozen):
    """A base model in the resource store: `path` is relative to the harness home (`models/...`).

    `tree_hash` covers the weights (as for submissions), `files_hash` what else decides a score: config, tokenizer,
    chat template.
    """

    repo_id: str
    revision: str
    path: Path
    tree_hash: str
    files_hash: str = ""
    size_bytes: int

    def hash(self) -> str:
        """The `base_model_hash` of evaluation keys: weights and files together."""
        return canonical_hash([self.tree_hash, self.files_hash])


class DataRef(Frozen):
    """Prepared data of a benchmark; paths are relative to the harness home (`train/...`, `eval/...`).

    `is_divided`: the benchmark came with train data only, and its hidden items were taken from them by hash.
    """

    train_path: Path
    eval_path: Path
    eval_hash: str
    train_items: int
    eval_items: int
    is_divided: bool = False


class Protocol(StrEnum):
    """How scores are shown and which one is the headline (contracts.md section 4)."""

    STANDARD = "standard"
    PAPER = "paper"


class EngineSpec(Frozen):
    """What must be equal for two scorings to be repeats of each other."""

    engine: Literal["transformers", "vllm"] = "transformers"
    image: str
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str
    batch_size: int = Field(32, gt=0)
    threads: int = Field(1, gt=0)
    seed: int = 0
    # Of vLLM alone; fixed, because what is free at the moment must not decide how answers are batched.
    kv_cache_blocks: int | None = Field(None, gt=0)
    max_model_len: int | None = Field(None, gt=0)
    tensor_parallel: int = Field(1, gt=0)

    def hash(self) -> str:
        """The `engine` hash of the records."""
        return canonical_hash(self.model_dump(mode="json"))


class NetworkPolicy(StrEnum):
    """What an agent reaches: grader and gateway alone, or named hosts besides, through the gateway's proxy."""

    NONE = "none"
    ALLOWLIST = "allowlist"


class Continuation(Frozen):
    """`--continue`: an agent that ends early is taken up again while more than `min_left_s` of its time is left."""

    min_left_s: int = Field(gt=0)
    max_times: int = Field(20, gt=0)


class Grading(Frozen):
    """A checkpoint that is scored outside a run (`harness grade`): `path` is the folder as it was named.

    With a base, it goes through admission as a submission against the plan's model; else it is the plan's model itself,
    and its score is the baseline. `is_anew`: scored also where a stored evaluation has the same key.
    """

    path: str
    has_base: bool
    is_anew: bool = False


def task_protocol(benchmark: Benchmark, eval_hash: str, protocol: Protocol, limit: int | None = None) -> str:
    """Hash of what must be equal for two scores to be comparable (contracts.md section 4)."""
    config, evaluators = benchmark.config, str(EVALUATORS_VERSION)
    if config.eval_mode is EvalMode.OPENCOMPASS:
        evaluators += f", opencompass {OPENCOMPASS_VERSION}"
    return canonical_hash(
        {
            "benchmark": benchmark.digest,
            "eval_mode": config.eval_mode.value,
            "opencompass_dataset": config.opencompass_dataset,
            "eval": eval_hash,
            "prompt": config.prompt_spec().model_dump(mode="json"),
            "protocol": protocol.value,
            "limit": limit,
            "evaluators": evaluators,
        }
    )


class RunPlan(Frozen):
    """Everything that is decided before anything is started. `grading`: there is no agent, only this is scored."""

    run_id: str
    created_at: datetime
    agent: Agent
    benchmark: Benchmark
    model: ModelRef
    data: DataRef
    protocol: Protocol
    limits: Limits
    limit: int | None = Field(None, gt=0)
    seed: int = 0
    gpus: tuple[str, ...] = ()
    port: int = 5000
    images: dict[str, str]
    engine: EngineSpec
    driver_model: str | None = None
    llm: DriverLlm | None = None
    network: NetworkPolicy = NetworkPolicy.NONE
    # Under `allowlist`: host names, `*.` in front for all below one.
    allowed_hosts: tuple[str, ...] = ()
    continuation: Continuation | None = None
    grading: Grading | None = None

    @property
    def kind(self) -> RunKind:
        return RunKind.GRADE if self.grading else RunKind.AGENT

    @property
    def has_gateway(self) -> bool:
        """Whether its agent reaches anything but the grader, which is through a gateway of the run's own."""
        return self.llm is not None or self.network is NetworkPolicy.ALLOWLIST

    @property
    def is_baseline_anew(self) -> bool:
        """Whether the baseline itself is what is graded, and its stored evaluation must not stand in for it."""
        return self.grading is not None and self.grading.is_anew and not self.grading.has_base

    def task_protocol(self) -> str:
        """This run's; see the function of the same name."""
        return task_protocol(self.benchmark, self.data.eval_hash, self.protocol, self.limit)
