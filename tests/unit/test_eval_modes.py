"""`--eval-mode`: a benchmark is scored in another way only where it has what that way needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import catalog
from harness.domain.specs import Benchmark, BenchmarkConfig, DataRef, EvalMode, ModelRef
from harness.errors import UsageError
from harness.runner.eval_modes import eval_modes, runs_programs, with_eval_mode
from harness.runner.plan import complete, draft
from harness.runner.request import RunRequest
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PER_SAMPLE = "def evaluate(question, model_answer, reference_answer):\n    return 1.0\n"
CODE = "def program(question, model_answer): ...\ndef check(candidate, question, reference_answer): ...\n"


def benchmark(folder: Path, eval_py: str | None, **config: object) -> Benchmark:
    if eval_py is not None:
        (folder / "eval.py").write_text(eval_py)
    return Benchmark(id="b", path=folder, digest="d", config=BenchmarkConfig(name="b", **config))


def test_without_the_option_and_with_its_own_mode_it_is_as_it_was(tmp_path: Path) -> None:
    own = benchmark(tmp_path, None, eval_mode=EvalMode.JUDGE)
    assert with_eval_mode(own, None) is own
    assert with_eval_mode(own, EvalMode.JUDGE) is own


def test_opencompass_needs_the_name_of_its_data_set(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="opencompass_dataset") as raised:
        with_eval_mode(benchmark(tmp_path, PER_SAMPLE), EvalMode.OPENCOMPASS)
    assert "per_sample" in raised.value.fix
    named = benchmark(tmp_path, PER_SAMPLE, opencompass_dataset="gsm8k_gen_1d7fe4")
    changed = with_eval_mode(named, EvalMode.OPENCOMPASS)
    assert changed.config.eval_mode is EvalMode.OPENCOMPASS
    assert (changed.digest, named.config.eval_mode) == ("d", EvalMode.PER_SAMPLE)
    assert eval_modes(named) == (EvalMode.PER_SAMPLE, EvalMode.OPENCOMPASS)


@pytest.mark.parametrize(
    ("eval_py", "mode", "says"),
    [
        (None, EvalMode.PER_SAMPLE, "no eval.py"),
        (CODE, EvalMode.PER_SAMPLE, r"no evaluate\(\)"),
        (PER_SAMPLE, EvalMode.CODE, r"no program\(\) and no check\(\)"),
        ("def evaluate(:", EvalMode.PER_SAMPLE, r"no evaluate\(\)"),
        ("\x00", EvalMode.PER_SAMPLE, r"no evaluate\(\)"),
        (PER_SAMPLE + CODE, EvalMode.JUDGE, "whose config says so"),
    ],
)
def test_what_a_mode_lacks_is_said(tmp_path: Path, eval_py: str | None, mode: EvalMode, says: str) -> None:
    own = benchmark(tmp_path, eval_py, eval_mode=EvalMode.OPENCOMPASS, opencompass_dataset="x")
    with pytest.raises(UsageError, match=says):
        with_eval_mode(own, mode)


@pytest.mark.parametrize(("eval_py", "mode"), [(PER_SAMPLE, EvalMode.PER_SAMPLE), (CODE, EvalMode.CODE)])
def test_an_eval_py_with_the_functions_will_do(tmp_path: Path, eval_py: str, mode: EvalMode) -> None:
    own = benchmark(tmp_path, eval_py, eval_mode=EvalMode.OPENCOMPASS, opencompass_dataset="x")
    assert with_eval_mode(own, mode).config.eval_mode is mode


def test_eval_py_is_read_and_never_run(tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n{PER_SAMPLE}"
    with_eval_mode(benchmark(tmp_path, trap, eval_mode=EvalMode.JUDGE), EvalMode.PER_SAMPLE)
    assert not (tmp_path / "ran").exists()


def test_the_mode_is_in_the_plan_and_in_its_task_protocol(tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "both").mkdir(parents=True)
    (tmp_path / "benchmarks" / "both" / "config.yaml").write_text(
        "name: both\ndefault_model: m\neval_mode: per_sample\n"
    )
    (tmp_path / "benchmarks" / "both" / "eval.py").write_text(PER_SAMPLE + CODE)
    settings = Settings(home=tmp_path / "home", root=tmp_path, device="cpu")
    (tmp_path / "agents").symlink_to(ROOT / "agents")
    for name in ("images", "harness", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    model = ModelRef(repo_id="m", revision="local", path=Path("models/m"), tree_hash="t", size_bytes=1)
    data = DataRef(train_path=Path("t"), eval_path=Path("e"), eval_hash="e", train_items=1, eval_items=9)
    plans = [
        complete(draft(RunRequest(agent="noop", task="both", eval_mode=mode), settings), model, data)
        for mode in (None, EvalMode.PER_SAMPLE, EvalMode.CODE)
    ]
    assert [plan.benchmark.config.eval_mode for plan in plans] == ["per_sample", "per_sample", "code"]
    assert plans[0].task_protocol() == plans[1].task_protocol() != plans[2].task_protocol()


@pytest.mark.parametrize("name", ["arithmetic", "gsm8k", "humaneval"])
def test_shipped_benchmarks_can_be_scored_as_they_say(name: str) -> None:
    shipped = catalog.find_benchmark(Settings(root=ROOT), name)
    own = shipped.config.eval_mode
    assert own in {mode for mode in EvalMode if mode is own or mode in eval_modes(shipped)}
    changed = shipped.model_copy(update={"config": shipped.config.model_copy(update={"eval_mode": EvalMode.JUDGE})})
    assert with_eval_mode(changed, own).config.eval_mode is own


@pytest.mark.parametrize(
    ("mode", "eval_py", "expected"),
    [
        (EvalMode.CODE, CODE, True),
        (EvalMode.PER_SAMPLE, PER_SAMPLE + CODE, False),
        (EvalMode.OPENCOMPASS, CODE, True),
        (EvalMode.OPENCOMPASS, PER_SAMPLE, False),
        (EvalMode.OPENCOMPASS, None, False),
    ],
)
def test_what_may_run_programs_has_an_executor(
    tmp_path: Path, mode: EvalMode, eval_py: str | None, expected: bool
) -> None:
    assert runs_programs(benchmark(tmp_path, eval_py, eval_mode=mode, opencompass_dataset="x")) is expected
