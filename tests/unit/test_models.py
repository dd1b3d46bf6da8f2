"""Base models in the store: found, copied whole, named by their content."""

import shutil
import stat
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from harness.domain.specs import Benchmark, BenchmarkConfig
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.runner.models import prepare_model
from harness.settings import Settings
from tests.safetensors_file import model_tensors, write_model


def quiet(_: str) -> None:
    """Says nothing."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path / "home")
    settings.resolved_home().create()
    return settings


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    folder = tmp_path / "bench"
    folder.mkdir()
    return Benchmark(id="bench", path=folder, digest="d", config=BenchmarkConfig(name="bench"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "my-model", model_tensors(0.5))


def home_of(settings: Settings) -> Home:
    return settings.resolved_home()


def test_a_local_folder_is_copied_and_read_only(model: Path, benchmark: Benchmark, settings: Settings) -> None:
    ref = prepare_model(str(model), benchmark, settings, quiet)
    stored = home_of(settings).path / ref.path
    assert ref.repo_id == "my-model"
    assert (stored / "config.json").is_file()
    assert stat.S_IMODE((stored / "config.json").stat().st_mode) == 0o444


def test_the_same_model_is_stored_once(model: Path, benchmark: Benchmark, settings: Settings, tmp_path: Path) -> None:
    first = prepare_model(str(model), benchmark, settings, quiet)
    shutil.copytree(model, tmp_path / "elsewhere" / "my-model")
    second = prepare_model(str(tmp_path / "elsewhere" / "my-model"), benchmark, settings, quiet)
    assert first == second


def test_a_second_preparation_hashes_nothing(model: Path, benchmark: Benchmark, settings: Settings) -> None:
    said: list[str] = []
    prepare_model(str(model), benchmark, settings, said.append)
    said.clear()
    prepare_model(str(model), benchmark, settings, said.append)
    assert said == []


def test_another_chat_template_is_another_model(model: Path, benchmark: Benchmark, settings: Settings) -> None:
    first = prepare_model(str(model), benchmark, settings, quiet)
    (model / "chat_template.jinja").write_text("{{ messages }}")
    second = prepare_model(str(model), benchmark, settings, quiet)
    assert first.tree_hash == second.tree_hash
    assert first.hash() != second.hash()
    assert first.path != second.path


def test_a_benchmarks_own_model_is_found_by_name(benchmark: Benchmark, settings: Settings) -> None:
    write_model(benchmark.path / "models" / "tiny", model_tensors(0.1))
    assert prepare_model("tiny", benchmark, settings, quiet).repo_id == "tiny"


def test_another_benchmarks_model_is_found_by_name(benchmark: Benchmark, settings: Settings, tmp_path: Path) -> None:
    write_model(tmp_path / "benchmarks" / "other" / "models" / "tiny", model_tensors(0.1))
    settings = settings.model_copy(update={"root": tmp_path})
    assert prepare_model("tiny", benchmark, settings, quiet).repo_id == "tiny"


def test_a_hub_that_does_not_answer_is_no_fault_of_the_harness(
    benchmark: Benchmark, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TransportError(HfHubHTTPError.__bases__[0]):  # type: ignore[misc]  # of the HTTP library below the hub's client
        pass

    def model_info(*_: object, **__: object) -> None:
        raise TransportError("Name or service not known")

    monkeypatch.setattr(HfApi, "model_info", model_info)
    with pytest.raises(PrerequisiteError, match="could not be fetched from the hub: Name or service") as caught:
        prepare_model("nobody/nothing", benchmark, settings, quiet)
    assert "harness list models" in caught.value.fix


def test_a_folder_without_a_config_is_refused(tmp_path: Path, benchmark: Benchmark, settings: Settings) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no config\.json"):
        prepare_model(str(tmp_path / "empty"), benchmark, settings, quiet)


def test_a_folder_without_safetensors_is_refused(model: Path, benchmark: Benchmark, settings: Settings) -> None:
    for file in model.glob("*.safetensors"):
        file.rename(model / "pytorch_model.bin")
    with pytest.raises(UsageError, match="safetensors"):
        prepare_model(str(model), benchmark, settings, quiet)


def test_a_link_out_of_the_folder_is_not_followed(
    model: Path, benchmark: Benchmark, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("of this machine")
    (model / "notes.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(UsageError, match="outside"):
        prepare_model(str(model), benchmark, settings, quiet)
    assert not list(home_of(settings).models.rglob("notes.txt"))
    (model / "notes.txt").unlink()
    (model / "etc").symlink_to("/etc")
    with pytest.raises(UsageError, match="outside"):
        prepare_model(str(model), benchmark, settings, quiet)


def test_json_of_any_depth_is_no_fault_of_the_harness(model: Path, benchmark: Benchmark, settings: Settings) -> None:
    (model / "config.json").write_text("[" * 200_000)
    assert prepare_model(str(model), benchmark, settings, quiet).files_hash
