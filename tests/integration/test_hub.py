"""Models from a hub: pinned, compared with its hashes, taken up where a fetch broke off. The hub is on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_hub import COMMIT, REPO, Hub, serving
from tests.safetensors_file import floats, model_tensors, write_model

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = "model.safetensors"
# Larger than the client's chunks, so that a fetch can break off in the middle.
BALLAST = floats(*[0.25] * (6 * 2**20))
SCRIPT = """
import json, sys
from pathlib import Path
from harness.domain.specs import Benchmark, BenchmarkConfig
from harness.errors import HarnessError
from harness.runner.models import prepare_model
from harness.runner.progress import Reporter
from harness.settings import Settings
from datetime import UTC, datetime
bench = Benchmark(id="b", path=Path("/nonexistent"), digest="d", config=BenchmarkConfig(name="b"))
settings = Settings(home=Path(sys.argv[1]))
settings.resolved_home().create()
seen = []
reporter = Reporter("", seen.append, datetime.now(UTC))
try:
    model = prepare_model(sys.argv[2], bench, settings, lambda text: seen.append(text), reporter.meter)
except HarnessError as error:
    print(json.dumps({"error": error.what, "fix": error.fix, "code": error.exit_code}))
else:
    said = [one for one in seen if isinstance(one, str)]
    moved = [(one.message, one.done_bytes, one.total_bytes) for one in seen if not isinstance(one, str)]
    print(json.dumps({"model": model.model_dump(mode="json"), "said": said, "moved": moved}))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    tensors = {**model_tensors(0.5), "model.layers.1.mlp.weight": ("F32", (6, 2**20), BALLAST)}
    folder = write_model(tmp_path / "repo", tensors)
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with serving(Hub(folder)) as serving_hub:
        yield serving_hub


def prepared(hub: Hub, home: Path, name: str = REPO, timeout_s: float = 120) -> dict[str, object]:
    """What a harness process of its own says: the client reads its environment when it is imported."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")} | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home.parent / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(home), name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The library's own bars would be here, on a pipe too.
    assert "%|" not in done.stderr
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_a_model_is_pinned_to_its_commit_and_only_weights_and_texts_come(hub: Hub, tmp_path: Path) -> None:
    told = prepared(hub, tmp_path / "home")
    model = told["model"]
    assert (model["repo_id"], model["revision"]) == (REPO, COMMIT)
    names = {path.name for path in (tmp_path / "home" / model["path"]).iterdir()}
    assert WEIGHTS in names
    assert not names & {"modeling_evil.py", "pytorch_model.bin"}
    size = (hub.folder / WEIGHTS).stat().st_size
    assert any(f"fetching {REPO} at {COMMIT}" in said and f"{size / 1e6:.1f}"[:3] in said for said in told["said"])
    whats = {what for what, _, _ in told["moved"]}
    assert {"comparing with the hub", f"hashing {REPO}", f"copying {REPO}"} <= whats
    assert all(0 < done <= total for _, done, total in told["moved"])


def test_what_is_there_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    first = prepared(hub, tmp_path / "home")
    count = len(hub.gets(WEIGHTS))
    second = prepared(hub, tmp_path / "home")
    assert second["model"] == first["model"]
    assert len(hub.gets(WEIGHTS)) == count == 1


def test_a_connection_that_breaks_is_taken_up_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    hub.breaks[WEIGHTS] = [11 * 2**20]
    assert "model" in prepared(hub, tmp_path / "home")
    whole, rest = hub.gets(WEIGHTS)
    assert whole == ""
    assert int(rest.removeprefix("bytes=").split("-")[0]) >= 10 * 2**20


def test_files_of_an_interrupted_fetch_are_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    """The library keeps whole files; one that broke off for good begins anew (its temporary name is of one process)."""
    second = hub.folder / "model-2.json"
    second.write_text("{}")
    hub.wrong.add(WEIGHTS)
    assert "is not what the hub says" in prepared(hub, tmp_path / "home")["error"]
    hub.wrong.clear()
    assert "model" in prepared(hub, tmp_path / "home")
    assert (len(hub.gets(WEIGHTS)), len(hub.gets(second.name))) == (2, 1)


def test_a_model_the_hub_does_not_know_is_told_with_what_to_do(hub: Hub, tmp_path: Path) -> None:
    told = prepared(hub, tmp_path / "home", "org/other")
    assert told["code"] == 3
    assert "could not be fetched" in told["error"]
    assert "harness list models" in told["fix"]
