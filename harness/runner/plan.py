"""From request and catalog to the frozen plan of one run; nothing is started here."""

from __future__ import annotations

import secrets
from datetime import datetime
from functools import cache
from pathlib import Path

from harness import catalog
from harness.domain.base import Frozen, now_utc
from harness.domain.llm import DriverLlm
from harness.domain.specs import (
    Agent,
    AgentConfig,
    Benchmark,
    Continuation,
    DataRef,
    EvalMode,
    Limits,
    ModelRef,
    NetworkPolicy,
    RunPlan,
)
from harness.errors import UsageError
from harness.runner.data import check_data_dir
from harness.runner.driver import DriverDraft, draft_driver
from harness.runner.engines import Hardware, engine_spec, hardware_of
from harness.runner.eval_modes import with_eval_mode
from harness.runner.network_policy import check_network
from harness.runner.request import RunRequest
from harness.sandbox.build_context import ZONES
from harness.sandbox.containers import ZONE_GATEWAY
from harness.sandbox.derived_images import agent_image, scorer_image
from harness.sandbox.gpus import chosen, list_gpus
from harness.sandbox.images import detect_device, expected_tags
from harness.settings import Settings

MAX_AGENT_NAME = 24
# In the place of an agent where a checkpoint is only scored; such a plan's runs are called `..._grade_...`.
NO_AGENT = Agent(id="none", path=Path(), digest="", config=AgentConfig(name="none"))
GRADE_NAME = "grade"
# The image that is a run's scorer in eval_mode opencompass.
OPENCOMPASS_ZONE = "opencompass"


class RunDraft(Frozen):
    """A plan before its model and data are fetched: what `--dry-run` prints and a dead `prepare` resumes from."""

    run_id: str
    created_at: datetime
    request: RunRequest
    agent: Agent
    benchmark: Benchmark
    model: str
    limits: Limits
    images: dict[str, str]
    hardware: Hardware
    llm: DriverDraft | None = None


def new_run_id(agent_id: str, created_at: datetime) -> str:
    """`<UTC yyyymmddThhmmss>_<agent>_<4 hex>`."""
    return f"{created_at:%Y%m%dT%H%M%S}_{agent_id[:MAX_AGENT_NAME]}_{secrets.token_hex(2)}"


def draft(request: RunRequest, settings: Settings) -> RunDraft:
    """The request resolved against catalog and image digests.

    Raises:
        UsageError: no such benchmark or agent, or a combination that cannot be run.
    """
    benchmark = with_eval_mode(catalog.find_benchmark(settings, request.task), request.eval_mode)
    agent = NO_AGENT if request.grading else catalog.find_agent(settings, request.agent)
    check_data_dir(benchmark, request.data_dir)
    model = request.model or benchmark.config.default_model
    if model is None:
        raise UsageError(f"benchmark {benchmark.id} has no default model", "Name one with --model.")
    llm = draft_driver(request, agent, settings)
    check_network(request.network, request.allowed_hosts)
    if request.gpus and detect_device(settings.device) == "cpu":
        raise UsageError(
            "--gpus names GPUs, but images and runs are built for the CPU here",
            "Set HARNESS_DEVICE=gpu and run `harness images`.",
        )
    created_at = now_utc()
    return RunDraft(
        run_id=new_run_id(GRADE_NAME if request.grading else agent.id, created_at),
        created_at=created_at,
        request=request,
        agent=agent,
        benchmark=benchmark,
        model=model,
        limits=_limits(request, benchmark),
        images=_images(settings, agent, benchmark, has_gateway=has_gateway(request, llm)),
        hardware=hardware_of(request.gpus, chosen(list_gpus(), request.gpus) if request.gpus else ()),
        llm=llm,
    )


def has_gateway(request: RunRequest, llm: DriverDraft | None) -> bool:
    """Whether the run needs a gateway: for its LLM, or as the way to the allowed hosts."""
    return llm is not None or request.network is NetworkPolicy.ALLOWLIST


def complete(draft: RunDraft, model: ModelRef, data: DataRef, llm: DriverLlm | None = None) -> RunPlan:
    """The plan of a draft whose model and data are in the store, and whose driver LLM has answered."""
    if draft.request.limit is not None and draft.request.limit > data.eval_items:
        raise UsageError(
            f"--limit {draft.request.limit} is more than the {data.eval_items} hidden items of {draft.benchmark.id}"
        )
    return RunPlan(
        run_id=draft.run_id,
        created_at=draft.created_at,
        agent=draft.agent,
        benchmark=draft.benchmark,
        model=model,
        data=data,
        protocol=draft.request.protocol,
        limits=draft.limits,
        limit=draft.request.limit,
        seed=draft.request.seed,
        gpus=draft.request.gpus,
        port=draft.request.port,
        images=draft.images,
        engine=engine_spec(draft.images["inference"], draft.hardware, model.size_bytes),
        driver_model=llm.model if llm else None,
        llm=llm,
        network=draft.request.network,
        allowed_hosts=draft.request.allowed_hosts,
        continuation=_continuation(draft.request),
        grading=draft.request.grading,
    )


def _continuation(request: RunRequest) -> Continuation | None:
    left_s = request.continue_min_left_s
    return None if left_s is None else Continuation(min_left_s=left_s)


def _limits(request: RunRequest, benchmark: Benchmark) -> Limits:
    named = {
        name: getattr(request, name)
        for name in ("timeout_s", "max_submissions", "memory_mb", "disk_mb", "cpus")
        if getattr(request, name) is not None
    }
    return benchmark.config.limits.model_copy(update=named)


@cache
def product_tags(settings: Settings) -> dict[str, str]:
    """Zone -> tag of the product's own images, optional ones too, for the checkout as this process found it."""
    root, device = settings.root.resolve(), detect_device(settings.device)
    return expected_tags(root, device, settings.base_image, with_optional=True)


def _images(settings: Settings, agent: Agent, benchmark: Benchmark, *, has_gateway: bool) -> dict[str, str]:
    """Zone -> tag; agent and scorer are images of their own where their folder, or the eval_mode, asks for one."""
    tags = product_tags(settings)
    scorer = scorer_image(settings.root.resolve(), benchmark.path, tags).tag
    ours = {zone.name: tags[zone.name] for zone in ZONES if not zone.is_optional}
    agents = {} if agent is NO_AGENT else {"agent": agent_image(agent.image_folder, tags).tag}
    return {
        **{zone: tag for zone, tag in ours.items() if zone != "agent" and (has_gateway or zone != ZONE_GATEWAY)},
        **agents,
        "scorer": tags[OPENCOMPASS_ZONE] if benchmark.config.eval_mode is EvalMode.OPENCOMPASS else scorer,
    }
