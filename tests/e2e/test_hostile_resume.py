"""A run that is stopped and resumed begins on a workspace that its agent has prepared: nothing there is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.live import Harness, LiveRun, await_true

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
OPTIONS = ("--protocol", "paper", "--limit", "8", "--timeout", "300", "--disk-mb", "100")


@pytest.fixture
def treasure(harness: Harness) -> Path:
    """A folder of the host's that the agent knows of; `chown`, `chmod` and writes through a link would show."""
    folder = harness.home.path.parent / "treasure"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text("{}")
    (folder / "config.json").chmod(0o600)
    return folder


def state_of(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Name -> mode, owner, size and time of the last change, of a folder and all below it."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_uid, status.st_size, status.st_ctime_ns)
    return found


def test_links_in_the_place_of_the_runs_folders_lead_nowhere(harness: Harness, treasure: Path) -> None:
    before = state_of(treasure)
    (harness.agents / "shifter" / "targets.json").write_text(json.dumps({"host": str(treasure)}))
    run = harness.start("shifter", *OPTIONS)
    stop_once_shifted(harness, run)

    facts = harness.ask("resume", run.run_id)
    assert (facts["verdict"], facts["ended_by"]) == ("graded", "finished")
    report = json.loads((run.folder.collected / "code" / "report.json").read_text())
    moved = {name: met for name, met in report["shifted"].items() if name != "data"}
    assert set(moved.values()) == {"shifted"}, "nothing was shown"
    assert set(report["kinds"].values()) == {"folder"}
    assert report["links"] == {name: str(treasure) for name in ("description.md", "instructions.md")}
    assert "model.safetensors" in report["model"]
    assert report["data"] == ["train.jsonl"]
    assert report["home_is_own"]
    assert report["meta"]["timeout_s"] == 300
    assert report["answer"]["status"] == 200

    assert state_of(treasure) == before
    kept = list(run.folder.collected.rglob("*"))
    assert [path for path in kept if path.is_symlink() or not (path.is_file() or path.is_dir())] == []
    assert [path for path in kept if path.name == "config.json" and path.read_text() == "{}"] == []


def stop_once_shifted(harness: Harness, run: LiveRun) -> None:
    """`harness stop`, and the end of the harness that drove the run."""
    marker = run.folder.workspace / "shifted"
    await_true(lambda: marker.exists() or run.process.poll() is not None, 300, "the agent's first attempt")
    assert marker.exists(), run.words[-2000:]
    stopped = harness.call("stop", run.run_id)
    assert stopped.returncode == 0, stopped.stderr
    run.process.communicate(timeout=300)
    assert run.process.returncode == 130, run.words[-2000:]
