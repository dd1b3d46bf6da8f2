"""Plans: what the request says goes before what the benchmark says, and nothing is started."""

from pathlib import Path

import pytest

from harness import catalog
from harness.domain import specs
from harness.domain.llm import DriverLlm
from harness.domain.specs import Continuation, DataRef, EvalMode, ModelRef, NetworkPolicy, Protocol
from harness.errors import UsageError
from harness.runner.plan import complete, draft
from harness.runner.request import RunRequest
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", root=ROOT, device="cpu")


def model(size_bytes: int = 1) -> ModelRef:
    return ModelRef(repo_id="m", revision="local", path=Path("models/m"), tree_hash="t", size_bytes=size_bytes)


def data(eval_items: int = 100) -> DataRef:
    return DataRef(
        train_path=Path("train/x"), eval_path=Path("eval/x"), eval_hash="e", train_items=1, eval_items=eval_items
    )


def test_a_draft_starts_nothing(settings: Settings) -> None:
    draft(RunRequest(agent="noop", task="arithmetic"), settings)
    assert not settings.home.exists()


def test_the_benchmark_gives_what_the_request_leaves_out(settings: Settings) -> None:
    plan = draft(RunRequest(agent="noop", task="arithmetic"), settings)
    assert plan.model == "tiny-arith"
    assert plan.limits == plan.benchmark.config.limits


def test_the_request_goes_before_the_benchmark(settings: Settings) -> None:
    plan = draft(RunRequest(agent="noop", task="arithmetic", timeout_s=7, disk_mb=99), settings)
    assert (plan.limits.timeout_s, plan.limits.disk_mb) == (7, 99)


def test_run_ids_tell_time_and_agent_and_differ(settings: Settings) -> None:
    request = RunRequest(agent="noop", task="arithmetic")
    first, second = draft(request, settings), draft(request, settings)
    assert first.run_id != second.run_id
    assert first.run_id.split("_")[1] == "noop"


def test_unknown_names_get_the_nearest_one(settings: Settings) -> None:
    with pytest.raises(UsageError, match="arithmetic"):
        draft(RunRequest(agent="noop", task="aritmetic"), settings)


def test_gpus_are_refused_where_images_are_built_for_the_cpu(settings: Settings) -> None:
    with pytest.raises(UsageError, match="built for the CPU") as caught:
        draft(RunRequest(agent="noop", task="arithmetic", gpus=("GPU-1",)), settings)
    assert "HARNESS_DEVICE=gpu" in caught.value.fix


def test_a_limit_beyond_the_hidden_items_is_refused(settings: Settings) -> None:
    one = draft(RunRequest(agent="noop", task="arithmetic", limit=101), settings)
    with pytest.raises(UsageError, match="more than the 100 hidden items"):
        complete(one, model(), data())


def test_what_must_be_equal_to_compare_is_in_the_task_protocol(settings: Settings) -> None:
    base = complete(draft(RunRequest(agent="noop", task="arithmetic"), settings), model(), data())
    seeded = complete(draft(RunRequest(agent="noop", task="arithmetic", seed=3), settings), model(), data())
    paper = complete(
        draft(RunRequest(agent="noop", task="arithmetic", protocol=Protocol.PAPER), settings), model(), data()
    )
    limited = complete(draft(RunRequest(agent="noop", task="arithmetic", limit=5), settings), model(), data())
    assert base.task_protocol() == seeded.task_protocol()
    assert base.engine.hash() == seeded.engine.hash()
    assert len({base.task_protocol(), paper.task_protocol(), limited.task_protocol()}) == 3


def test_the_model_size_decides_the_batch_and_with_it_the_engine(settings: Settings) -> None:
    one = draft(RunRequest(agent="noop", task="arithmetic"), settings)
    small, large = complete(one, model(10**6), data()), complete(one, model(10**9), data())
    assert small.engine.batch_size > large.engine.batch_size
    assert small.engine.hash() != large.engine.hash()


@pytest.mark.parametrize("benchmark_id", ["arithmetic", "gsm8k"])
def test_no_model_need_be_named(settings: Settings, benchmark_id: str) -> None:
    assert draft(RunRequest(agent="noop", task=benchmark_id), settings).model


def test_a_data_folder_that_does_not_fit_is_refused_before_anything_is_fetched(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"lacks train\.jsonl"):
        draft(RunRequest(agent="noop", task="gsm8k", model="m", data_dir=tmp_path), settings)


def test_opencompass_is_scored_in_an_image_of_its_own(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = draft(RunRequest(agent="noop", task="arithmetic"), settings)
    assert "opencompass" not in ordinary.images
    benchmark = catalog.find_benchmark(settings, "arithmetic")
    config = benchmark.config.model_copy(update={"eval_mode": EvalMode.OPENCOMPASS})
    monkeypatch.setattr(catalog, "find_benchmark", lambda *_: benchmark.model_copy(update={"config": config}))
    plan = draft(RunRequest(agent="noop", task="arithmetic"), settings)
    assert plan.images["scorer"].startswith("harness-opencompass:")
    assert plan.images == {**ordinary.images, "scorer": plan.images["scorer"]}


def test_scores_of_another_opencompass_are_not_reused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = complete(draft(RunRequest(agent="noop", task="arithmetic"), settings), model(), data())
    config = plan.benchmark.config.model_copy(update={"eval_mode": EvalMode.OPENCOMPASS})
    plan = plan.model_copy(update={"benchmark": plan.benchmark.model_copy(update={"config": config})})
    before = plan.task_protocol()
    monkeypatch.setattr(specs, "OPENCOMPASS_VERSION", "9.9.9")
    assert plan.task_protocol() != before


def agent_folder(tmp_path: Path, config: str) -> Path:
    folder = tmp_path / "agents" / "caller"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"name: caller\n{config}")
    (folder / "start.sh").write_text("true\n")
    return folder.parent


def test_a_run_has_the_gateways_image_where_it_needs_a_gateway(settings: Settings, tmp_path: Path) -> None:
    assert "gateway" not in draft(RunRequest(agent="noop", task="arithmetic"), settings).images
    with_hosts = RunRequest(
        agent="noop", task="arithmetic", network=NetworkPolicy.ALLOWLIST, allowed_hosts=("pypi.org",)
    )
    assert draft(with_hosts, settings).images["gateway"].startswith("harness-gateway:")
    settings = settings.model_copy(update={"agents_dir": agent_folder(tmp_path, "llm: openai\n")})
    found = draft(RunRequest(agent="caller", task="arithmetic"), settings)
    assert found.images["gateway"].startswith("harness-gateway:")
    assert found.llm is not None


def test_a_policy_and_hosts_that_do_not_go_together_are_refused(settings: Settings) -> None:
    for fields in ({"network": NetworkPolicy.ALLOWLIST}, {"allowed_hosts": ("pypi.org",)}):
        with pytest.raises(UsageError):
            draft(RunRequest(agent="noop", task="arithmetic").model_copy(update=fields), settings)


def test_the_plan_says_what_drives_and_what_is_reached(settings: Settings, tmp_path: Path) -> None:
    settings = settings.model_copy(update={"agents_dir": agent_folder(tmp_path, "llm: openai\n")})
    request = RunRequest(
        agent="caller",
        task="arithmetic",
        network=NetworkPolicy.ALLOWLIST,
        allowed_hosts=("pypi.org",),
        continue_min_left_s=600,
    )
    llm = DriverLlm(provider="openai", url="http://h/v1", model="m")
    plan = complete(draft(request, settings), model(), data(), llm)
    assert (plan.llm, plan.driver_model, plan.has_gateway) == (llm, "m", True)
    assert (plan.network, plan.allowed_hosts) == (NetworkPolicy.ALLOWLIST, ("pypi.org",))
    assert plan.continuation == Continuation(min_left_s=600)
    alone = complete(draft(RunRequest(agent="noop", task="arithmetic"), settings), model(), data())
    assert (alone.llm, alone.driver_model, alone.continuation, alone.has_gateway) == (None, None, None, False)


def test_a_price_table_that_is_not_there_is_told_before_anything_is_started(settings: Settings, tmp_path: Path) -> None:
    changes = {"agents_dir": agent_folder(tmp_path, "llm: openai\n"), "llm_prices": tmp_path / "none.yaml"}
    with pytest.raises(UsageError, match="price table") as caught:
        draft(RunRequest(agent="caller", task="arithmetic"), settings.model_copy(update=changes))
    assert "HARNESS_LLM_PRICES" in caught.value.fix
