"""`harness list benchmarks`: folders that cannot be used stop nothing and are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.catalog import find_benchmark
from harness.cli.edge import guarded
from harness.domain.specs import Protocol, task_protocol
from harness.home import Home
from harness.runner.data import prepare_data, prepared_data
from harness.runner.data_sources import EVAL_FILE, TRAIN_FILE, Fetch
from harness.settings import load_settings


def test_broken_folders_are_told_beside_the_list(
    own_settings: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("web", "name: web\n"), ("torn", "name: [\n")):
        (tmp_path / "smith" / name).mkdir(parents=True)
        (tmp_path / "smith" / name / "config.yaml").write_text(text)
    monkeypatch.setenv("SMITH_BENCH_DIR", str(tmp_path / "smith"))
    assert guarded(["list", "benchmarks", "--json"]) == 0
    shown = capsys.readouterr()
    assert {"arithmetic", "smith-web"} <= {row["id"] for row in json.loads(shown.out)}
    assert "smith-torn cannot be used" in shown.err


def rows_of(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert guarded(["list", "benchmarks", "--json"]) == 0
    return {row["id"]: row for row in json.loads(capsys.readouterr().out)}


def test_a_broken_folder_of_ours_is_a_row_with_its_error(
    own_settings: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("fine", "name: fine\n"), ("torn", "name: [\n"), ("other", "name: another\n")):
        (tmp_path / "root" / "benchmarks" / name).mkdir(parents=True)
        (tmp_path / "root" / "benchmarks" / name / "config.yaml").write_text(text)
    monkeypatch.setenv("HARNESS_ROOT", str(tmp_path / "root"))
    assert guarded(["list", "benchmarks", "--json"]) == 0
    shown = capsys.readouterr()
    rows = {row["id"]: row for row in json.loads(shown.out)}
    assert {name: row["error"] is None for name, row in rows.items()} == {"fine": True, "torn": False, "other": False}
    assert len({tuple(row) for row in rows.values()}) == 1
    assert "torn cannot be used" in shown.err
    assert "the folder is 'other'" in shown.err
    assert guarded(["list", "benchmarks"]) == 0
    assert "unusable: " in capsys.readouterr().out


def test_a_folder_of_published_benchmarks_that_is_not_there_is_told(
    own_settings: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SMITH_BENCH_DIR", str(tmp_path / "typo"))
    assert guarded(["list", "benchmarks"]) == 0
    assert "typo is no folder" in capsys.readouterr().err.replace("\n", " ")


def test_it_tells_what_can_be_shown_before_anything_is_prepared(
    own_settings: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    row = rows_of(capsys)["gsm8k"]
    assert (row["mode"], row["hidden_items"], row["final_items"]) == ("per_sample", 1319, 660)
    assert (row["max_submissions"], row["max_submissions_per_hour"]) == (20, 4)
    assert (row["is_prepared"], row["task_protocol"]) == (False, None)
    # 660 items: 2.8 times the standard error of two unrelated models, sqrt(0.5 / 660).
    assert row["detectable_points"] == pytest.approx(7.7, abs=0.1)


def test_prepared_data_decides_items_and_task_protocol(own_settings: Home, capsys: pytest.CaptureFixture[str]) -> None:
    found = find_benchmark(load_settings(), "gsm8k")
    folder = own_settings.path / "data"
    folder.mkdir()
    lines = [json.dumps({"question": f"How many are {n} and {n}?", "answer": f"#### {2 * n}"}) for n in range(40)]
    (folder / "train.jsonl").write_text("\n".join(lines[:29]))
    (folder / "test.jsonl").write_text("\n".join(lines[29:]))

    def fetch(call: Fetch) -> None:
        name = TRAIN_FILE if call.function.endswith("train_data") else EVAL_FILE
        source = folder / ("train.jsonl" if name == TRAIN_FILE else "test.jsonl")
        (call.target / name).write_text(source.read_text())

    data = prepare_data(found, folder, own_settings, fetch, lambda _: None)
    assert prepared_data(found, own_settings) == data
    row = rows_of(capsys)["gsm8k"]
    assert (row["hidden_items"], row["final_items"], row["is_prepared"]) == (11, 6, True)
    assert row["task_protocol"] == task_protocol(found, data.eval_hash, Protocol.STANDARD)
    # Another folder now: what was prepared of the old one says nothing about it.
    assert prepared_data(found.model_copy(update={"digest": "f" * 64}), own_settings) is None
