"""`harness grade` on real containers: a score, a repeat, an improvement, a refusal, and nothing left by any ending."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from tests.e2e.live import ROOT, Harness, await_true, left_of_runs

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
TINY = ROOT / "benchmarks" / "arithmetic" / "models" / "tiny-arith"
TASK = ("--task", "arithmetic")
LIMIT = 60


def graded(harness: Harness, *options: str) -> dict[str, Any]:
    """What it prints for machines."""
    report: dict[str, Any] = harness.ask("grade", *TASK, *options)
    return report


def weakened(folder: Path) -> Path:
    """A checkpoint of the tiny model whose first tensor is zero: admissible, and other answers."""
    shutil.copytree(TINY, folder)
    (file,) = folder.glob("*.safetensors")
    data = bytearray(file.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    begin, end = next(entry["data_offsets"] for name, entry in header.items() if name != "__metadata__")
    data[8 + length + begin : 8 + length + end] = bytes(end - begin)
    file.write_bytes(data)
    return folder


def begun(harness: Harness) -> tuple[subprocess.Popen[bytes], Path, str]:
    """A grading in another process whose services are being started, what it says, and its id."""
    said = harness.folder / "grade.err"
    before = set(harness.home.run_ids())
    command = [sys.executable, "-m", "harness", "grade", *TASK, "--model", "tiny-arith", "--no-cache"]
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=harness.folder, env=harness.environment, stdout=subprocess.DEVNULL, stderr=stderr
        )
    await_true(lambda: "starting the scoring services" in said.read_text() or process.poll() is not None)
    assert process.poll() is None, said.read_text()
    (run_id,) = set(harness.home.run_ids()) - before
    return process, said, run_id


def verdict_of(harness: Harness, run_id: str) -> str | None:
    (row,) = harness.rows(f"select verdict from run where run_id = '{run_id}'")
    return row["verdict"]


def test_a_model_is_scored_once_and_again_with_equal_answers(engine: DockerClient, harness: Harness) -> None:
    first = graded(harness, "--model", "tiny-arith")
    assert (first["state"], first["measured"]["is_stored"], first["agreement"]) == ("graded", False, None)
    assert 20 < first["overall"]["score_pct"] < 50
    assert first["score"]["low_pct"] < first["score"]["score_pct"] < first["score"]["high_pct"]
    stored = graded(harness, "--model", "tiny-arith")
    assert (stored["measured"]["is_stored"], stored["overall"]) == (True, first["overall"])
    # New services, a new engine: the repeat is one over a restart.
    again = graded(harness, "--model", "tiny-arith", "--no-cache")
    n_items = first["overall"]["n_items"]
    assert (again["agreement"]["n_equal"], again["agreement"]["n_items"]) == (n_items, n_items)
    assert left_of_runs(engine, harness.home) == []


def test_a_checkpoint_is_compared_with_its_base(engine: DockerClient, harness: Harness) -> None:
    folder = weakened(harness.folder / "weakened")
    report = graded(harness, "--model", str(folder), "--base", "tiny-arith", "--limit", str(LIMIT))
    assert (report["state"], report["base_model"], report["model"]) == ("graded", "tiny-arith", str(folder))
    assert report["improvement"]["high"] < 0
    shown = harness.call("show", report["run_id"])
    assert "improvement" in shown.stdout
    assert left_of_runs(engine, harness.home) == []


def test_a_refused_checkpoint_says_why_and_exits_with_1(engine: DockerClient, harness: Harness) -> None:
    folder = harness.folder / "refused"
    shutil.copytree(TINY, folder)
    (folder / "evil.py").write_text("x")
    done = harness.call("grade", *TASK, "--model", str(folder), "--base", "tiny-arith")
    assert done.returncode == 1
    assert "evil.py" in done.stdout
    assert left_of_runs(engine, harness.home) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing_but_its_record(
    engine: DockerClient, harness: Harness, number: signal.Signals
) -> None:
    process, said, run_id = begun(harness)
    process.send_signal(number)
    assert process.wait(120) == 130, said.read_text()
    assert verdict_of(harness, run_id) == "interrupted"
    assert left_of_runs(engine, harness.home) == []


def test_what_a_killed_one_left_is_tidied_up_by_the_next(engine: DockerClient, harness: Harness) -> None:
    process, _, run_id = begun(harness)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    done = harness.call("grade", *TASK, "--model", "tiny-arith", "--limit", str(LIMIT))
    assert done.returncode == 0, done.stderr
    assert f"grading {run_id} lost its harness" in done.stderr
    assert verdict_of(harness, run_id) == "interrupted"
    await_true(lambda: not left_of_runs(engine, harness.home), what="the end of what it left")


def test_no_list_and_no_table_of_runs_has_them(harness: Harness, tmp_path: Path) -> None:
    graded(harness, "--model", "tiny-arith", "--limit", str(LIMIT))
    gradings = {row["run_id"] for row in harness.ask("list", "gradings")}
    assert gradings
    assert not gradings & {row["run_id"] for row in harness.ask("list")}
    out = tmp_path / "out"
    assert harness.call("export", next(iter(sorted(gradings))), "--out", str(out)).returncode == 0
    assert len((out / "results.csv").read_text().splitlines()) == 1
    assert harness.rows("select * from v_leaderboard where agent = 'none'") == []


def test_a_grading_is_not_taken_up(harness: Harness) -> None:
    report = graded(harness, "--model", "tiny-arith", "--limit", str(LIMIT))
    done = harness.call("resume", report["run_id"])
    assert done.returncode == 2
    assert "started anew" in done.stderr
