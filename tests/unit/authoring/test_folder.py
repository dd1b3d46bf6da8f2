"""The contract suite's look at a folder, and the folder that a new benchmark begins with: nothing is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from drafts import CONFIG, DESCRIPTION, EVAL, GOOD

from harness import catalog
from harness.authoring.suite import DATA_CHECKS, FOLDER_CHECKS, SCORING_CHECKS
from harness.authoring.template_folder import free_folder, write_benchmark
from harness.errors import PrerequisiteError, UsageError
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[3]


def written(tmp_path: Path, files: dict[str, str]) -> Path:
    folder = tmp_path / "capitals"
    for name, content in {**GOOD, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def look(folder: Path) -> None:
    benchmark = catalog.benchmark_at(Settings(root=folder.parent), folder)
    for check in FOLDER_CHECKS.values():
        check(benchmark)


def test_a_good_folder_passes(tmp_path: Path) -> None:
    look(written(tmp_path, {}))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config.yaml": CONFIG.replace("licence:", "# licence:")}, "no licence"),
        ({"config.yaml": CONFIG.replace("{question}", "?")}, "does not hold {question}"),
        ({"config.yaml": CONFIG.replace("temperature: 0", "temperature: 0.7")}, "is luck"),
        ({"description.md": DESCRIPTION.replace("Metric", "Score")}, "does not name the metric"),
        ({"description.md": DESCRIPTION.replace("16", "17")}, "how long an answer may be"),
        ({"eval.py": EVAL + "import harness.catalog\n"}, "imports harness.catalog"),
        ({"eval.py": "def evaluate(:\n"}, "no valid Python"),
        ({"config.yaml": CONFIG + "expose_files: [eval.py]\n"}, "expose_files names eval.py"),
        ({"notes/test_items.jsonl": "{}\n"}, "looks like hidden items"),
    ],
)
def test_each_fault_of_a_folder_is_told(files: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        look(written(tmp_path, files))
    assert words in caught.value.what
    assert caught.value.fix


def test_what_a_description_lacks_is_told_as_it_must_be_written(tmp_path: Path) -> None:
    folder = written(tmp_path, {"description.md": "nothing"})
    (folder / "description.md").unlink()
    with pytest.raises(UsageError, match=r"no description\.md"):
        look(folder)


def test_a_new_folder_has_its_name_everywhere(tmp_path: Path) -> None:
    folder = free_folder(tmp_path / "mine", "my-task")
    files = write_benchmark(ROOT, folder)
    assert folder / "sample" / "train.tsv" in files
    look(folder)
    assert not [path for path in files if "NAME" in path.read_text()]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("/nowhere")
    for name in ("there", "link"):
        with pytest.raises(UsageError, match="is there already"):
            free_folder(tmp_path, name)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "Big", "_hidden", ".hidden", "x" * 100, "a b", "a\n"])
def test_a_name_must_be_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a folder's name"):
        free_folder(tmp_path, name)


def test_without_a_checkout_there_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="HARNESS_ROOT"):
        write_benchmark(tmp_path, tmp_path / "x")


def test_every_check_is_described() -> None:
    rows = re.findall(r"^\| ((?:`\w+` ?)+)\|", (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), re.M)
    described = {name for row in rows for name in re.findall(r"\w+", row)}
    assert described == {"config", "data", "again", *FOLDER_CHECKS, *DATA_CHECKS, *SCORING_CHECKS}
