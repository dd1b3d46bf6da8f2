"""The snapshot store has a limit per run, and gives up only what no open run needs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from grader_case import ROOMY, AgentSide, Case
from safetensors_file import HIDDEN, floats, model_tensors, write_model

from harness.cli.app import app
from harness.cli.clean import unneeded_snapshots
from harness.domain.admin import CloseRun
from harness.domain.runs import Verdict
from harness.domain.specs import Limits, Protocol
from harness.errors import Unready, UsageError
from harness.grader.allowance import LEAST_BYTES, limit_bytes
from harness.grader.base_model import BaseModelInfo
from harness.grader.snapshots import STAGE_PREFIX, SnapshotStore, stored_bytes

MB = 10**6
# One checkpoint of the large base is 0.6 MB: a million bytes hold one, and not two.
VOCABULARY = 36_000


def large_tensors(value: float) -> dict:
    table = floats(*[value] * HIDDEN) * VOCABULARY
    return {**model_tensors(value), "model.embed_tokens.weight": ("F32", (VOCABULARY, HIDDEN), table)}


@pytest.fixture
def tight_case(tmp_path: Path):
    """A grader whose base model has 0.6 MB."""
    case = Case(tmp_path)
    write_model(case.home.models / "base", large_tensors(0.3))
    yield case
    case.stop()


def tight(case: Case, snapshots_mb: int = 1) -> AgentSide:
    return case.add_run(limits=ROOMY.model_copy(update={"snapshots_mb": snapshots_mb}))


def write(agent: AgentSide, name: str, value: float) -> str:
    write_model(agent.workspace / "output" / name, large_tensors(value))
    return f"output/{name}"


def test_a_run_that_stored_its_share_is_refused_clearly(tight_case: Case):
    agent = tight(tight_case)
    assert agent.submit(write(agent, "v1", 0.4)).status_code == 200
    refused = agent.submit(write(agent, "v2", 0.5))
    assert refused.status_code == 429
    assert refused.json()["error_class"] == "over_quota"
    assert "1 MB in all is the limit" in refused.json()["error"]
    store = SnapshotStore(tight_case.home.snapshots)
    assert len(store.all_keys()) == 1
    assert not list(store.root.glob(f"{STAGE_PREFIX}*"))
    # It used no quota, and what is stored is still there to be scored.
    assert agent.submission(2)["state"] == "rejected"
    assert agent.submission(1)["reply"]["total_submissions"] == 1


def test_the_same_bytes_again_take_nothing(tight_case: Case):
    agent = tight(tight_case)
    first = agent.submit(write(agent, "v1", 0.4)).json()
    again = agent.submit(write(agent, "copy", 0.4))
    assert again.status_code == 200
    assert again.json()["score"] == first["score"]


def test_what_another_run_has_stored_counts_as_much(tight_case: Case):
    other = tight(tight_case)
    other.submit(write(other, "v1", 0.5))
    agent = tight(tight_case)
    agent.submit(write(agent, "v1", 0.4))
    # The store has these bytes already; if they were let through, the agent would know.
    assert agent.submit(write(agent, "v2", 0.5)).status_code == 429


def test_a_validation_takes_nothing(tight_case: Case):
    agent = tight(tight_case)
    agent.submit(write(agent, "v1", 0.4))
    assert agent.client.post("validate", json={"model_path": write(agent, "v2", 0.5)}).status_code == 200


def test_by_default_the_whole_quota_fits_in_the_wider_type(case: Case, tmp_path: Path):
    folder = write_model(tmp_path / "m", model_tensors())
    base = BaseModelInfo.load(folder, "")
    plan = case.plan("x")
    assert limit_bytes(plan, base) == LEAST_BYTES
    huge = BaseModelInfo(
        **{**vars(base), "tensors": dict.fromkeys(map(str, range(10**6)), next(iter(base.tensors.values())))}
    )
    limits = Limits(max_submissions=20)
    standard = limit_bytes(plan.model_copy(update={"limits": limits}), huge)
    assert standard > 20 * 2 * huge.data_bytes
    paper = plan.model_copy(update={"limits": limits, "protocol": Protocol.PAPER})
    assert limit_bytes(paper, huge) == 5 * standard
    assert limit_bytes(plan.model_copy(update={"limits": Limits(snapshots_mb=7)}), huge) == 7 * MB


# Collection


def close(case: Case, agent: AgentSide) -> None:
    case.admin.post(f"/runs/{agent.run_id}/close", CloseRun().model_dump_json())


def call(monkeypatch: pytest.MonkeyPatch, case: Case, *words: str) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(case.home.path))
    with pytest.raises(SystemExit) as ended:
        app(["clean", "--snapshots", *words])
    assert ended.value.code == 0


def test_what_no_open_run_needs_is_removed(
    own_case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ended, going = own_case.add_run(), own_case.add_run()
    ended.submit(ended.write("v1", 0.5))
    ended.submit(ended.write("both", 0.6))
    going.submit(going.write("both", 0.6))
    going.submit(going.write("v1", 0.7))
    store = SnapshotStore(own_case.home.snapshots)
    assert len(store.all_keys()) == 3
    assert unneeded_snapshots(own_case.home, store) == []
    close(own_case, ended)
    (doomed,) = unneeded_snapshots(own_case.home, store)
    call(monkeypatch, own_case, "--dry-run")
    shown = "".join(capsys.readouterr())
    assert doomed[:12] in shown
    assert "1 of 3 snapshots, 0.0 MB" in shown
    assert len(store.all_keys()) == 3
    call(monkeypatch, own_case, "--yes")
    assert "removed 1 snapshots" in "".join(capsys.readouterr())
    assert len(store.all_keys()) == 2
    assert not store.has(doomed)
    call(monkeypatch, own_case, "--yes")
    assert "no snapshot that" in "".join(capsys.readouterr())
    # The score of what is gone is still there: for the same bytes in another run, too.
    generated = own_case.inference.generated
    later = own_case.add_run()
    assert later.submit(later.write("v1", 0.5)).json()["score"] is not None
    assert own_case.inference.generated == generated


def test_a_stopped_run_keeps_its_snapshots_as_long_as_it_can_be_resumed(own_case: Case):
    agent = own_case.add_run()
    folder = own_case.home.run(agent.run_id).path
    folder.mkdir()
    own_case.inference.is_up = False
    agent.submit_later(agent.write("v1", 0.5))
    own_case.admin.post(f"/runs/{agent.run_id}/close", CloseRun(verdict=Verdict.INTERRUPTED).model_dump_json())
    store = SnapshotStore(own_case.home.snapshots)
    assert unneeded_snapshots(own_case.home, store) == []
    folder.rmdir()
    assert unneeded_snapshots(own_case.home, store) == list(store.all_keys())


def test_a_queued_submission_keeps_its_snapshot(own_case: Case, monkeypatch: pytest.MonkeyPatch):
    agent = own_case.add_run()
    own_case.inference.is_up = False
    agent.submit_later(agent.write("v1", 0.5))
    call(monkeypatch, own_case, "--yes")
    own_case.inference.is_up = True
    assert agent.wait_for(1)["reply"]["score"] is not None


def test_stages_and_checks_are_not_looked_at(own_case: Case):
    store = SnapshotStore(own_case.home.snapshots)
    (store.root / ".checks").mkdir()
    with store.stage(0):
        assert store.all_keys() == ()


def test_nothing_is_collected_while_something_is_added(tmp_path: Path):
    store = SnapshotStore(tmp_path)
    with store.adding(), store.adding(), pytest.raises(Unready), store.collecting(0.1):
        pass
    with store.collecting(0.1):
        pass


def test_what_is_added_waits_for_a_collection(tmp_path: Path):
    store, events = SnapshotStore(tmp_path), []

    def add() -> None:
        with store.adding():
            events.append("added")

    thread = threading.Thread(target=add)
    with store.collecting(1):
        thread.start()
        thread.join(0.2)
        events.append("collected")
    thread.join(10)
    assert events == ["collected", "added"]


def test_an_admission_holds_collections_up_until_it_is_recorded(own_case: Case, monkeypatch: pytest.MonkeyPatch):
    from harness.grader import intake

    agent, seen = own_case.add_run(), []
    store = SnapshotStore(own_case.home.snapshots)

    def marked(*arguments, **named):
        with pytest.raises(Unready), store.collecting(0.01):
            pass
        seen.append(store.all_keys())
        return mark_admitted(*arguments, **named)

    mark_admitted = intake.mark_admitted
    monkeypatch.setattr(intake, "mark_admitted", marked)
    agent.submit(agent.write("v1", 0.5))
    assert len(seen) == 1
    with store.collecting(1):
        pass


def test_removing_is_whole_and_a_missing_one_is_no_error(tmp_path: Path):
    store = SnapshotStore(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.safetensors").write_bytes(b"x" * 10)
    assert stored_bytes(tmp_path / "a") == 10
    assert store.remove(["a", "b"]) == 1
    assert list(tmp_path.iterdir()) == []
    assert stored_bytes(tmp_path / "a") == 0


def test_clean_takes_one_kind_at_a_time(own_case: Case, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HARNESS_HOME", str(own_case.home.path))
    with pytest.raises(UsageError):
        app(["clean", "--snapshots", "--run", "x"])
