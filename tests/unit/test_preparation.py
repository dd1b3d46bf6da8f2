"""`harness prepare`: what is new, what was there and is read again, and how far it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from harness.cli.byte_progress import ByteBar
from harness.cli.prepare import _show
from harness.cli.run_progress import showing_run
from harness.domain.runs import Phase
from harness.errors import PrerequisiteError
from harness.home import Home
from harness.runner.host import Host
from harness.runner.launch import Launcher
from harness.runner.meter import unmetered, watched
from harness.runner.plan import draft
from harness.runner.preparation import Preparation
from harness.runner.progress import Progress, Reporter
from harness.runner.request import RunRequest
from harness.settings import Settings
from tests.run_fakes import ago
from tests.safetensors_file import model_tensors, write_model
from tests.served import wait_until

ROOT = Path(__file__).resolve().parents[2]


class PreparingHost:
    """A host that writes two items where a benchmark's script would."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.settings = Settings(home=home.path, root=ROOT, device="cpu")
        self.scripts = 0

    def revive_grader(self) -> None:
        """Nothing to do."""

    def run_data_script(self, plan_draft: object, call: Any) -> None:
        self.scripts += 1
        name = "train.jsonl" if call.function == "download_train_data" else "test.jsonl"
        (call.target / name).write_text(f'{{"id": "{name}", "question": "{name}", "answer": "2"}}\n')


@pytest.fixture
def host(home: Home) -> PreparingHost:
    return PreparingHost(home)


@pytest.fixture
def prepare(host: PreparingHost, tmp_path: Path) -> Callable[[], Preparation]:
    model = write_model(tmp_path / "mine", model_tensors(0.5))
    launcher = Launcher(cast(Host, host), lambda progress: None)
    request = RunRequest(agent="noop", task="arithmetic", model=str(model))
    return lambda: launcher.prepare_ahead(draft(request, host.settings))


def loosened(folder: Path) -> Path:
    """A stored folder as somebody who has root finds it: nothing keeps its files from being changed."""
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700)
    return folder


def test_what_is_fetched_now_is_told_apart_from_what_was_there(host: PreparingHost, prepare) -> None:
    first, second = prepare(), prepare()
    assert (first.is_model_new, first.is_data_new) == (True, True)
    assert (second.is_model_new, second.is_data_new) == (False, False)
    assert (second.model, second.data, host.scripts) == (first.model, first.data, 2)
    assert first.train_bytes > 0 < first.eval_bytes


def test_one_of_two_may_have_been_there(prepare, host: PreparingHost) -> None:
    first = prepare()
    shutil.rmtree(loosened(host.home.path / first.data.train_path))
    again = prepare()
    assert (again.is_model_new, again.is_data_new) == (False, True)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer_config.json"])
def test_a_stored_model_that_has_changed_is_told(prepare, host: PreparingHost, name: str) -> None:
    file = loosened(host.home.path / prepare().model.path) / name
    data = bytearray(file.read_bytes())
    data[-3 if name.endswith("s") else data.index(b"1")] ^= 1
    file.write_bytes(data)
    with pytest.raises(PrerequisiteError, match="not what was stored") as caught:
        prepare()
    assert f"rm -r {file.parent}" in caught.value.fix


def test_stored_hidden_items_that_have_changed_are_told(prepare, host: PreparingHost) -> None:
    folder = loosened(host.home.path / prepare().data.eval_path)
    (folder / "test.jsonl").write_text('{"id": "x", "question": "3+3", "answer": "6"}\n')
    with pytest.raises(PrerequisiteError, match="not what was stored"):
        prepare()


def test_sizes_are_shown_with_what_was_there(prepare, host: PreparingHost, capsys) -> None:
    prepare()
    _show(prepare(), host.home)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("model") and "MB" in line and "was there already" in line for line in lines)
    assert any(line.startswith("hidden items") and "1 (0.0 MB)" in line for line in lines)


def test_a_long_read_is_told_now_and_then_and_at_its_end(monkeypatch) -> None:
    told: list[Progress] = []
    with Reporter("", told.append, ago(0)).meter("hashing", 1000) as count:
        for _ in range(100):
            count(10)
    assert [(one.message, one.done_bytes, one.total_bytes) for one in told] == [("hashing", 1000, 1000)]
    monkeypatch.setattr("harness.runner.progress.TELL_EVERY_S", 0.0)
    with Reporter("", told.append, ago(0)).meter("hashing", 15) as count:
        count(10)
        count(10)
    assert [one.done_bytes for one in told[1:]] == [10, 15, 15]


def test_a_read_that_breaks_off_is_not_told_as_done() -> None:
    told: list[Progress] = []
    with pytest.raises(ValueError, match="broken"), Reporter("", told.append, ago(0)).meter("hashing", 10):
        raise ValueError("broken")
    assert told == []


def test_what_a_library_writes_is_counted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("harness.runner.meter.WATCH_EVERY_S", 0.01)
    (tmp_path / "before").write_bytes(b"x" * 500)
    seen: list[int] = []
    with watched(tmp_path, seen.append):
        (tmp_path / "file.incomplete").write_bytes(b"x" * 300)
        (tmp_path / "link").symlink_to("before")
        wait_until(lambda: sum(seen) >= 300, 20)
        (tmp_path / "file.incomplete").unlink()
    assert sum(seen) == 300


def test_a_folder_that_is_not_there_yet_is_counted_from_nothing(tmp_path: Path) -> None:
    with watched(tmp_path / "later", lambda count: None), unmetered("x", 1) as count:
        count(1)


def moved(what: str, done: int) -> Progress:
    return Progress(run_id="", phase=Phase.PREPARING, elapsed_s=0, message=what, done_bytes=done, total_bytes=2_000_000)


def test_a_terminal_is_shown_a_bar_with_amounts() -> None:
    text = StringIO()
    console, bar = Console(file=text, force_terminal=True, width=120), ByteBar()
    for progress in (moved("hashing mine", 0), moved("hashing mine", 1_000_000), moved("copying mine", 0)):
        console.print(bar.drawn(progress))
    first, half, other = text.getvalue().splitlines()
    assert "hashing mine" in first
    assert "1.0/2.0 MB" in half
    assert "copying mine" in other
    assert "0.0/2.0 MB" in other


def test_a_bar_is_one_line_of_a_narrow_terminal_whatever_the_name() -> None:
    text = StringIO()
    Console(file=text, force_terminal=True, width=78).print(ByteBar().drawn(moved("hashing " + "long" * 40, 1_000_000)))
    (line,) = text.getvalue().splitlines()
    assert "MB/s" in line or "?" in line
    assert "1.0/2.0 MB" in line


def test_a_pipe_is_shown_nothing_of_it(capsys) -> None:
    with showing_run() as sink:
        sink(moved("hashing mine", 5))
    assert capsys.readouterr() == ("", "")
