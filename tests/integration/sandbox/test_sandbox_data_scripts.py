"""A benchmark's data script in its container, and a service that does not come up."""

import pytest

from harness.errors import PrerequisiteError, ServiceUnavailable
from harness.sandbox.data_scripts import DataScript, run_data_script
from harness.sandbox.hardening import Resources
from harness.sandbox.owner import current_owner
from harness.sandbox.services import Service, start_services

pytestmark = pytest.mark.docker


@pytest.fixture
def run(client, home, image, tmp_path):
    def call(text, function="download_train_data", **changes):
        benchmark = tmp_path / "benchmark"
        benchmark.mkdir()
        (benchmark / "data.py").write_text(text)
        (benchmark / "words.txt").write_text("shipped")
        target = tmp_path / "target"
        target.mkdir()
        script = DataScript(image=image, benchmark=benchmark, function=function, target=target, has_network=False)
        said = run_data_script(client, home, current_owner(), script.model_copy(update=changes))
        return said, target

    yield call
    assert client.api.containers(all=True, filters={"label": f"harness.home={home.label}"}) == []


WRITE = """
import os
from pathlib import Path
def download_train_data(target_dir):
    folders = (Path(__file__).parent, Path(os.environ.get("DATA_DIR", "/benchmark")))
    (Path(target_dir) / "train.jsonl").write_text("".join((f / "words.txt").read_text() for f in folders))
    print("wrote it")
"""


def test_it_fills_the_target(run):
    said, target = run(WRITE)
    assert (target / "train.jsonl").read_text() == "shippedshipped"
    assert said == "wrote it"


def test_it_reads_the_users_folder(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/words.txt").write_text("mine")
    _, target = run(WRITE, data_dir=tmp_path / "mine")
    assert (target / "train.jsonl").read_text() == "shippedmine"


def test_a_failure_comes_with_its_last_words(run):
    with pytest.raises(PrerequisiteError, match="no such corpus"):
        run("def download_train_data(target_dir): raise SystemExit('no such corpus')")


def test_a_failure_with_a_network_names_the_way_without(run):
    with pytest.raises(PrerequisiteError, match="no route") as failure:
        run("def download_train_data(target_dir): raise SystemExit('no route')", has_network=True)
    assert "--data-dir" in failure.value.fix


def test_a_missing_function_is_named(run):
    with pytest.raises(PrerequisiteError, match="has no function download_eval_data"):
        run(WRITE, function="download_eval_data")


def test_it_has_no_network_unless_it_is_given_one(run):
    with pytest.raises(PrerequisiteError, match="unreachable"):
        run("import socket\ndef download_train_data(t): socket.create_connection(('198.51.100.1', 80), timeout=5)")


def test_one_that_hangs_is_ended(run):
    with pytest.raises(PrerequisiteError, match="did not end within 2 s"):
        run("import time\ndef download_train_data(t): time.sleep(60)", timeout_s=2)


def test_it_can_write_nowhere_else(run):
    with pytest.raises(PrerequisiteError, match="Read-only file system"):
        run("def download_train_data(t): open('/benchmark/data.py', 'w')")


def test_a_service_that_ends_says_why_and_leaves_nothing(client, home, image):
    service = Service(
        run_id="run-s",
        owner=current_owner(),
        image=image,
        zone="scorer",
        command=("python3", "-c", "raise SystemExit('no evaluator here')"),
        socket_dir=home.scorer_dir("run-s"),
        mounts=(),
        resources=Resources(memory_mb=100, pids=20),
    )
    with pytest.raises(ServiceUnavailable, match="no evaluator here"):
        start_services(client, home, [service], timeout_s=20)
    assert client.api.containers(all=True, filters={"label": f"harness.home={home.label}"}) == []
