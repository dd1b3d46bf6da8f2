"""`harness list benchmarks`: folders that cannot be used stop nothing and are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.edge import guarded
from harness.home import Home


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
