"""Plans: what the request says goes before what the benchmark says, and nothing is started."""

from pathlib import Path

import pytest

from harness import catalog
from harness.domain import specs
from harness.domain.specs import DataRef, EvalMode, ModelRef, Protocol
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
