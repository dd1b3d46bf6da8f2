"""`harness check` and `harness new` on real Docker: the shipped folders, the template, and a draft that means harm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from built_images import ROOT, built_image
from chat_server import chat_server
from drafts import CURIOUS_EVAL, GOOD, good
from leftovers import nothing_is_left

from harness.cli.edge import guarded
from harness.home import Home

pytestmark = pytest.mark.docker


@pytest.fixture(autouse=True)
def images() -> None:
    built_image("scorer")


def test_a_shipped_benchmark_passes_in_its_containers(own_settings: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(["check", "benchmark", "arithmetic", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["has_passed"]
    assert {check["name"] for check in report["checks"] if check["outcome"] == "skipped"} == {"examples", "cluster"}
    nothing_is_left(own_settings)


def test_a_new_folder_passes_at_once(own_settings: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(["new", "benchmark", "mine", "--into", str(tmp_path)]) == 0
    assert f"harness check benchmark {tmp_path / 'mine'}" in capsys.readouterr().err
    assert guarded(["check", "benchmark", str(tmp_path / "mine")]) == 0
    assert guarded(["new", "benchmark", "mine", "--into", str(tmp_path)]) == 2
    (tmp_path / "mine" / "description.md").write_text("nothing")
    assert guarded(["check", "benchmark", str(tmp_path / "mine")]) == 1
    nothing_is_left(own_settings)


HUNGRY_DATA = """\
import os, pathlib, socket

def download_train_data(target_dir):
    seen = [name for name in ("OPENAI_API_KEY", "CHAT_MODEL") if name in os.environ]
    for place in ("/benchmark/eval.py", "/etc/passwd", "/opt/x"):
        try:
            pathlib.Path(place).open("a").close()
            seen.append(place)
        except OSError:
            pass
    raise SystemExit(f"uid {os.getuid()}, keys and places: {seen}")
"""


def test_a_draft_runs_in_containers_alone(
    own_settings: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "README.md").write_text("# Doubles of numbers\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-4711")
    monkeypatch.setenv("CHAT_MODEL", "a-model")
    options = ["new", "benchmark", "capitals", "--into", str(tmp_path / "made"), "--from", str(tmp_path / "repository")]
    with chat_server(good(data__py=HUNGRY_DATA), good(eval__py=CURIOUS_EVAL), good()) as server:
        assert guarded([*options, "--llm-base-url", server.base_url]) == 0
    complaints = [request["messages"][-1]["content"] for request in server.requests]
    assert "keys and places: []" in complaints[1]
    assert "uid 0" not in complaints[1]
    assert "Network is unreachable" in complaints[2]
    folder = tmp_path / "made" / "capitals"
    assert {path.name: path.read_text() for path in folder.iterdir() if path.name != "DRAFT.md"} == GOOD
    shown = capsys.readouterr()
    written = (folder / "DRAFT.md").read_text()
    assert "sk-very-secret" not in shown.out + shown.err + written + json.dumps(server.requests)
    assert not Path("/etc/harness-was-here").exists()
    nothing_is_left(own_settings)


def test_a_published_folder_with_train_data_alone_is_divided(
    own_settings: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "smith" / "doubles"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: doubles\ntask_type: qa\n")
    train_only = GOOD["data.py"].partition("def download_eval_data")[0].replace("range(0, 40, 2)", "range(50)")
    (folder / "download_data.py").write_text(train_only)
    shutil.copyfile(ROOT / "benchmarks" / "arithmetic" / "eval.py", folder / "eval.py")
    monkeypatch.setenv("SMITH_BENCH_DIR", str(tmp_path / "smith"))
    assert guarded(["check", "benchmark", "smith-doubles", "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert "divided by hash" in checks["division"]["what"]
    assert {name for name, check in checks.items() if check["outcome"] == "failed"} == {"licence", "description"}
    nothing_is_left(own_settings)
