"""What agents are told: the same for equal plans, complete for every benchmark, and true of the plan."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from harness import catalog
from harness.domain.llm import DriverLlm, LlmBudget
from harness.domain.specs import EngineSpec, Limits, NetworkPolicy, Protocol, RunPlan
from harness.grader.file_names import Role, role_of
from harness.home import Home
from harness.runner.engines import engine_bytes
from harness.runner.plan_words import span
from harness.runner.prompts import (
    continuation,
    description,
    instructions,
    prompt,
    prompt_sha256,
    write_continue,
    write_prompts,
)
from harness.settings import Settings
from tests.run_fakes import make_plan

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings(root=ROOT)
BENCHMARKS = sorted(folder.parent.name for folder in (ROOT / "benchmarks").glob("[!_]*/config.yaml"))
LLM = DriverLlm(provider="openai", url="https://llm.test/v1", model="gpt-5.2", budget=LlmBudget(usd=2.5, requests=70))
GPU_ENGINE = EngineSpec(
    image="i", device="gpu:1 x H200", engine="vllm", dtype="bfloat16", kv_cache_blocks=40_960, max_model_len=16_384
)
VARIANTS = {
    "plain": {},
    "llm": {"llm": LLM},
    "llm-unlimited": {"llm": LLM.model_copy(update={"budget": LlmBudget()})},
    "gpu": {"gpus": ("GPU-1",), "engine": GPU_ENGINE},
    "allowlist": {"network": NetworkPolicy.ALLOWLIST, "allowed_hosts": ("pypi.org", "*.hf.co")},
    "paper": {"protocol": Protocol.PAPER},
}


def plan_with(folder: Path, **fields: object) -> RunPlan:
    return make_plan(folder).model_copy(update=fields)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_place_of_every_text_is_filled(tmp_path: Path, benchmark: str, variant: str) -> None:
    plan = plan_with(tmp_path, benchmark=catalog.find_benchmark(SETTINGS, benchmark), **VARIANTS[variant])
    for text in (prompt(plan), instructions(plan), continuation(plan, 1800, 61.5)):
        assert "@{" not in text
        assert "None" not in text.replace(description(plan).strip(), "")
        assert not re.search(r"\n\n\n| +\n", text)
        assert benchmark in text
    assert plan.benchmark.config.name in prompt(plan)
    assert all(Path(name).name in instructions(plan) for name in plan.benchmark.config.expose_files)


def test_equal_plans_get_equal_prompts_whatever_the_run_is_called(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    later = plan.created_at + timedelta(days=1)
    other = plan.model_copy(update={"run_id": "other", "created_at": later, "port": 1, "images": {}, "seed": 7})
    assert prompt_sha256(other) == prompt_sha256(plan)
    assert instructions(other) == instructions(plan)
    limits = Limits(timeout_s=61)
    assert prompt_sha256(plan.model_copy(update={"limits": limits})) != prompt_sha256(plan)


def test_an_agents_own_words_follow_those_that_all_get(tmp_path: Path) -> None:
    without = prompt(make_plan(tmp_path))
    (tmp_path / "prompt.md").write_text("Use the tool `bash`.\n")
    assert prompt(make_plan(tmp_path)) == f"{without}\nUse the tool `bash`.\n"


def test_the_benchmarks_own_description_is_in_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "description.md").write_text("Costs $5, mail me@example.org.\n")
    assert "Costs $5, mail me@example.org." in prompt(make_plan(tmp_path))


def test_budgets_are_those_of_the_plan(tmp_path: Path) -> None:
    limits = Limits(timeout_s=43_200, max_submissions=7, max_submissions_per_hour=3, disk_mb=111, memory_mb=222, pids=9)
    for text in (prompt(plan_with(tmp_path, limits=limits)), instructions(plan_with(tmp_path, limits=limits))):
        assert "Time: 12 h from the start" in text
        assert "Submissions: 7 in all, and 3 within an hour." in text
        assert "Disk: 111 MB" in text
        assert "Memory: 222 MB" in text
        assert "threads: 9." in text


def test_the_paper_protocol_has_no_quota_and_one_score(tmp_path: Path) -> None:
    text = instructions(plan_with(tmp_path, protocol=Protocol.PAPER))
    assert "no quota" in text
    assert "all hidden items" in text
    assert "other half" not in text


def test_an_llm_and_its_budget_are_told_of_only_where_there_is_one(tmp_path: Path) -> None:
    with_llm = instructions(plan_with(tmp_path, llm=LLM))
    assert "LLM (`gpt-5.2`): 2.5 USD; 70 requests. When it is spent, the run ends." in with_llm
    assert "every call is recorded" in with_llm
    assert "LLM" not in instructions(make_plan(tmp_path))
    assert "no limit, but all of it is counted." in instructions(plan_with(tmp_path, **VARIANTS["llm-unlimited"]))


def test_the_provider_and_its_address_are_nobodys_business(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, llm=LLM.model_copy(update={"key_from": "/secret/key"}))
    for text in (prompt(plan), instructions(plan)):
        assert "llm.test" not in text
        assert "/secret" not in text


def test_hosts_are_named_where_the_network_is_open(tmp_path: Path) -> None:
    text = instructions(plan_with(tmp_path, **VARIANTS["allowlist"]))
    assert "`pypi.org`, `*.hf.co`" in text
    assert "Fetch nothing that holds items" in text
    assert "general data from the hosts above" in text
    closed = instructions(make_plan(tmp_path))
    assert "no packages, no model hub" in closed
    assert "HTTPS_PROXY" not in closed


def test_what_the_engine_needs_on_a_gpu_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    plan = plan_with(tmp_path, **VARIANTS["gpu"])
    model = plan.model.model_copy(update={"size_bytes": 2 * 494_000_000})
    assert engine_bytes(plan.engine, model, home) is None
    (tmp_path / model.path).mkdir(parents=True)
    config = '{"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896}'
    (tmp_path / model.path / "config.json").write_text(config)
    needed = engine_bytes(plan.engine, model, home)
    assert needed is not None
    assert 12e9 < needed < 15e9
    assert "needs about 13 GB of free memory there" in instructions(plan, needed)
    assert engine_bytes(make_plan(tmp_path).engine, model, home) is None
    assert "There is no GPU." in instructions(make_plan(tmp_path))


@pytest.mark.parametrize("name", ["training_args.bin", "adapter_model.safetensors", "model.py"])
def test_what_the_instructions_call_refused_is_refused(name: str) -> None:
    assert role_of(name) is Role.FORBIDDEN


def test_the_training_python_has_what_the_instructions_say(tmp_path: Path) -> None:
    line = next(line for line in instructions(make_plan(tmp_path)).splitlines() if "TRAINING_PYTHON" in line)
    said = re.findall(r"[a-z]+", line.partition(" has ")[2].partition(".")[0])
    files = ("images/agent/requirements.txt", "images/torch/requirements-cpu.txt", "images/torch/requirements-gpu.txt")
    for device in (files[:2], (files[0], files[2])):
        listed = "\n".join((ROOT / name).read_text() for name in device)
        assert {name for name in said if name != "and"} <= set(re.findall(r"^([a-z]+)", listed, re.M))
    assert len(said) > 5


def test_what_is_kept_of_a_workspace_is_as_the_instructions_say(tmp_path: Path) -> None:
    from harness.runner.collect import SKIPPED_SUFFIXES, WORKSPACE_CAPS

    assert WORKSPACE_CAPS.file_bytes == 10 * 2**20
    assert ".safetensors" in SKIPPED_SUFFIXES
    assert "files of up to 10 MB" in instructions(make_plan(tmp_path))


def test_the_texts_are_written_where_agents_can_read_them(tmp_path: Path) -> None:
    home, plan = Home(tmp_path), make_plan(tmp_path)
    folder = home.run(plan.run_id)
    folder.meta.mkdir(parents=True)
    write_prompts(plan, home)
    write_continue(folder, plan, 1800, None)
    write_continue(folder, plan, 900, 42.0)
    assert {path.name for path in folder.meta.iterdir()} == {
        "description.md", "instructions.md", "prompt.md", "continue.md"
    }  # fmt: skip
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in folder.meta.iterdir())
    text = (folder.meta / "continue.md").read_text()
    assert "15 min are left" in text
    assert "Your best score is 42." in text


@pytest.mark.parametrize(("seconds", "text"), [(75, "75 s"), (600, "10 min"), (3_660, "1 h 1 min"), (43_200, "12 h")])
def test_times_are_told_in_hours_and_minutes(seconds: float, text: str) -> None:
    assert span(seconds) == text
