"""A run leaves one database as a document and comes back in another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import START

from harness.domain.admin import ArtifactIn, CloseRun, EventIn, FinishRun, ResourceSampleIn
from harness.domain.findings import Finding
from harness.domain.runs import EndedBy, Verdict
from harness.errors import Conflict, ErrorClass, UsageError
from harness.store import importing
from harness.store.database import WritableDatabase, open_writer
from harness.store.export import export_run, write_record
from harness.store.importing import import_run, parse_record
from harness.store.models import NewSubmission
from harness.store.query import run_query
from harness.store.records_closing import close_run, reopen_run
from harness.store.records_evaluations import find_evaluation
from harness.store.records_findings import add_findings
from harness.store.records_llm import add_llm_calls
from harness.store.records_runs import add_event, add_sample, finish_run, list_runs
from harness.store.records_submissions import new_submission, reject_submission

BASE, GOOD = (
    tuple(item.model_copy(update={"cluster": "c", "sample_scores": (item.score, item.score)}) for item in some)
    for some in (samples.items([0, 1, 0, 0], [0, 1, 0]), samples.items([1, 1, 1, 0], [1, 1, 0]))
)
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[WritableDatabase]:
    """Another machine's database, whose ids are ahead."""
    database = open_writer(tmp_path / "other" / "harness.db")
    samples.graded(database, samples.plan(500, agent="own"), BASE, GOOD, BASE)
    yield database
    database.close()


def full_run(db: WritableDatabase, number: int = 1) -> str:
    """A closed run with a row in every table."""
    plan = samples.plan(number)
    run = samples.registered(db, plan)
    samples.with_baseline(db, run, BASE)
    samples.scored(db, run, f"{number}-one", GOOD)
    reject_submission(db, samples.submitted(db, run.run_id).id, ErrorClass.NO_WEIGHTS, "leer: ü \u0000 \U0001f600")
    samples.scored(db, run, "same bytes in every run", BASE)
    add_event(db, run.run_id, EventIn(kind="agent_started", detail={"image": "x", "n": [1.5, None]}), at=START)
    add_sample(
        db, run.run_id, ResourceSampleIn(cpu_pct=0.1, memory_mb=1 / 3, disk_mb=2, pids=3, gpu_memory_mb=7.5), at=START
    )
    add_llm_calls(db, run.run_id, [samples.llm_call(number, run.run_id) for number in (1, 2)])
    evidence = {"tensors": ["model.norm.weight"], "share": 0.25}
    finding = Finding(submission_number=1, kind="k", severity="info", detail="d", evidence=evidence, tool_version="2")
    add_findings(db, run.run_id, [finding], at=START)
    finish_run(db, run.run_id, FinishRun(ended_by=EndedBy.DEADLINE, exit_code=124, detail="time"), at=START)
    artifact = ArtifactIn(path="workspace/code/train.py", size_bytes=10, sha256="e" * 64)
    return close_run(db, run.run_id, CloseRun(artifacts=(artifact,)), at=START).run_id


def document(db: WritableDatabase, run_id: str) -> bytes:
    return export_run(db, run_id).model_dump_json().encode()


def shown(db: WritableDatabase, run_id: str) -> list[object]:
    """What the views say of a run, but for where it came from."""
    views = {name: run_query(db, f"SELECT * FROM {name} WHERE run_id = '{run_id}'") for name in VIEWS}
    return [
        [{**dict(zip(view.columns, row, strict=True)), "is_imported": None} for row in view.rows]
        for view in views.values()
    ]


VIEWS = ("v_runs", "v_submissions", "v_triage", "v_llm_spend")
TABLES = ("run", "submission", "evaluation", "item_score", "event", "llm_call", "resource_sample", "finding")


def counts(db: WritableDatabase) -> tuple[int, ...]:
    parts = [f"(SELECT count(*) FROM {table})" for table in (*TABLES, "artifact", "baseline")]
    return run_query(db, f"SELECT {', '.join(parts)}").rows[0]


def test_round_trip_gives_equal_rows(db: WritableDatabase, other: WritableDatabase) -> None:
    run_id = full_run(db)
    imported = import_run(other, document(db, run_id))
    assert export_run(other, run_id) == export_run(db, run_id)
    assert shown(other, run_id) == shown(db, run_id)
    assert (imported.verdict, imported.owner, imported.token_sha256) == (Verdict.GRADED, None, "")
    assert imported.imported_at


def test_calls_with_one_number_are_no_record(db: WritableDatabase, other: WritableDatabase) -> None:
    record = json.loads(document(db, full_run(db)))
    record["llm_calls"][1]["number"] = 1
    with pytest.raises(UsageError, match="two LLM calls have one number"):
        import_run(other, json.dumps(record).encode())


def test_importing_again_changes_nothing(db: WritableDatabase, other: WritableDatabase) -> None:
    data = document(db, full_run(db))
    first = import_run(other, data)
    before = counts(other)
    assert import_run(other, data) == first
    assert counts(other) == before
    import_run(db, data)
    assert len(list_runs(db)) == 1


def test_record_of_an_imported_run_is_the_same_record(db: WritableDatabase, other: WritableDatabase) -> None:
    data = document(db, full_run(db))
    run = import_run(other, data)
    assert document(other, run.run_id) == data


def test_runs_that_share_evaluations_share_them_after_import(db: WritableDatabase, other: WritableDatabase) -> None:
    ids = [full_run(db, 1), full_run(db, 2)]
    before = counts(other)[2]
    for run_id in ids:
        import_run(other, document(db, run_id))
        assert export_run(other, run_id) == export_run(db, run_id)
    # Both have one of their own; baseline and the same bytes are shared.
    assert counts(other)[2] - before == 4


def test_imported_scores_never_serve_as_a_cache(db: WritableDatabase, other: WritableDatabase) -> None:
    data = document(db, full_run(db))
    imported = import_run(other, data)
    assert find_evaluation(db, imported.evaluation_key("1-one"))
    assert find_evaluation(other, imported.evaluation_key("1-one")) is None


def test_run_of_this_id_with_other_content_is_a_conflict(db: WritableDatabase, other: WritableDatabase) -> None:
    data = document(db, full_run(db))
    import_run(other, data)
    changed = json.loads(data)
    changed["events"] = []
    before = counts(other)
    with pytest.raises(Conflict, match="other content"):
        import_run(other, json.dumps(changed).encode())
    assert counts(other) == before


def test_record_of_the_first_version_is_taken_as_it_is(record: bytes, other: WritableDatabase) -> None:
    old = json.loads(record)
    headline = old["run"]["headline"]
    for part in (headline["score"], headline["baseline"], headline["improvement"]):
        for name in importing.ADDED & part.keys():
            del part[name]
    gain = headline["improvement"]
    half = 1.959963984540054 * gain["stderr_pct"]
    gain.update(low=gain["points"] - half, high=gain["points"] + half)
    for finding in old["findings"]:
        del finding["evidence"], finding["tool_version"]
    run = import_run(other, json.dumps(old).encode())
    assert run.headline
    assert run.headline.improvement
    assert (run.headline.improvement.method, run.headline.improvement.low) == (None, gain["low"])
    assert import_run(other, json.dumps(old).encode()) == run
    gain.update(high=99.0)
    old["run_id"] = old["run"]["plan"]["run_id"] = old["run_id"][:-1] + "7"
    with pytest.raises(UsageError, match="headline"):
        import_run(other, json.dumps(old).encode())


def test_open_run_can_be_exported_but_not_imported(db: WritableDatabase, other: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    with pytest.raises(UsageError, match="not closed"):
        import_run(other, document(db, run.run_id))


def test_interrupted_run_can_be_imported_but_not_taken_up(db: WritableDatabase, other: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    samples.queued(db, run.run_id, "x")
    samples.closed(db, run.run_id, EndedBy.STOPPED)
    import_run(other, document(db, run.run_id))
    with pytest.raises(Conflict):
        reopen_run(other, run.run_id)


def test_nothing_that_is_secret_or_of_this_machine_is_in_the_document(db: WritableDatabase) -> None:
    run_id = full_run(db)
    text = document(db, run_id).decode()
    assert samples.plan().run_id.ljust(64, "0") not in text
    for word in ("token_sha256", "subnet", "owner", "boot_id", "question", "reference"):
        assert f'"{word}"' not in text.replace('"prompt":"{question}"', "")


def test_what_an_agent_can_make_long_never_stops_an_export(db: WritableDatabase) -> None:
    run = samples.registered(db, samples.plan())
    request = NewSubmission(run_id=run.run_id, model_path="x/" * 1_000_000, submitted_at=START, note="n" * 5_000_000)
    new = new_submission(db, request, samples.NO_QUOTA)
    reject_submission(db, new.id, ErrorClass.NO_WEIGHTS, "d" * 5_000_000)
    samples.closed(db, run.run_id)
    assert parse_record(document(db, run.run_id)).submissions[0].number == 1


def test_file_is_written_whole(db: WritableDatabase, tmp_path: Path) -> None:
    export = export_run(db, full_run(db))
    path = write_record(export, tmp_path / "runs" / "x")
    assert [p.name for p in path.parent.iterdir()] == ["record.json"]
    assert parse_record(path.read_bytes()) == export


@pytest.fixture(scope="module")
def record(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The document of `full_run`, made once."""
    path = tmp_path_factory.mktemp("record") / "harness.db"
    shutil.copyfile(migrated, path)
    database = open_writer(path)
    try:
        return document(database, full_run(database))
    finally:
        database.close()


def _score(document: dict[str, Any]) -> dict[str, Any]:
    """The first final item of the best submission, which has it right."""
    items = next(e for e in document["evaluations"] if e["key"]["tree_hash"] == "1-one")["items"]
    return next(item for item in items if item["item_id"] == "z0")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(version=2), "version"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d.update(run_id="../../etc"), "run_id"),
        (lambda d: d["run"]["plan"].update(run_id="20260102T030405_x_0002"), "another run"),
        (lambda d: d["run"].update(verdict="no_submission"), "verdict"),
        (lambda d: d["run"].update(closed_at=None), "not closed"),
        (lambda d: d["run"]["headline"]["score"].update(score_pct=99.0), "headline"),
        (lambda d: d["run"].update(headline=None), "headline"),
        (lambda d: d["run"]["headline"]["improvement"].update(high=99.0), "headline"),
        (lambda d: d["run"]["headline"]["improvement"].update(probability=0.99), "headline"),
        (lambda d: d["run"]["headline"]["improvement"].update(seed=1), "headline"),
        (lambda d: d["run"]["headline"]["improvement"].update(method=None), "headline"),
        (lambda d: d["run"]["headline"]["score"].update(low_pct=60.0), "headline"),
        (lambda d: d["run"].update(exit_code=2**70), "exit_code"),
        (lambda d: d["run"]["plan"].update(seed=2**70), "fit"),
        (lambda d: d["run"]["plan"].update(created_at="2026-01-02T03:04:05"), "time zone"),
        (lambda d: _score(d).update(score=1.5, sample_scores=[]), "fit"),
        (lambda d: _score(d).update(score=float("nan")), "not a run record"),
        (lambda d: _score(d).update(score=0.0, sample_scores=[]), "headline"),
        (lambda d: _score(d).update(item_id="z1"), "fit"),
        (lambda d: _score(d).update(sample_scores=[1e308, -1e308]), "samples"),
        (lambda d: _score(d).update(sample_scores=[_score(d)["score"], 0.125]), "samples"),
        (lambda d: _score(d).update(output_tokens=-5), "tokens"),
        (lambda d: d["submissions"][0].update(number=7), "numbered"),
        (lambda d: d["submissions"][0].update(evaluation=99), "evaluations"),
        (lambda d: d["submissions"][0].update(evaluation=None), "do not match"),
        (lambda d: d["submissions"][0].update(state="queued"), "evaluation"),
        (lambda d: d["submissions"][0].update(tree_hash="z"), "checkpoint"),
        (lambda d: d["submissions"][1].update(state="queued"), "still open"),
        (lambda d: d["evaluations"][0]["key"].update(engine_hash="z"), "engine"),
        (lambda d: d["events"][0]["detail"].update(x=float("inf")), "fit"),
        (lambda d: d["events"][0].update(at="0001-01-01T00:00:00+14:00"), "events"),
        (lambda d: d["artifacts"][0].update(path="../x"), "run folder"),
        (lambda d: d["artifacts"].append(d["artifacts"][0]), "fit"),
        (lambda d: d["resource_samples"][0].update(pids=-1), "pids"),
    ],
)
def test_record_that_was_tampered_with_is_refused(
    db: WritableDatabase, record: bytes, change: Change, says: str
) -> None:
    changed = json.loads(record)
    change(changed)
    with pytest.raises(UsageError, match=says):
        import_run(db, json.dumps(changed).encode())
    assert not any(counts(db))


@pytest.mark.parametrize(
    "data", [b"", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"run_id": "\\ud800"}', b"1" * 10_000]
)
def test_what_is_no_record_is_refused(db: WritableDatabase, data: bytes) -> None:
    with pytest.raises(UsageError, match="not a run record"):
        import_run(db, data)


def test_too_large_a_record_is_refused_before_it_is_read(db: WritableDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MAX_RECORD_BYTES", 10)
    with pytest.raises(UsageError, match="limit is 10"):
        import_run(db, b"x" * 11)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["graded", "2026-01-02"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_place_is_taken_or_refused_cleanly(
    db: WritableDatabase, record: bytes, data: st.DataObject
) -> None:
    changed = json.loads(record)
    place = data.draw(st.sampled_from([place for place in _places(changed) if place]))
    target = changed
    for key in place[:-1]:
        target = target[key]
    if data.draw(st.booleans()):
        target[place[-1]] = data.draw(JSON)
    else:
        del target[place[-1]]
    before = counts(db)
    try:
        run = import_run(db, json.dumps(changed).encode())
    except (UsageError, Conflict):
        assert counts(db) == before
    else:
        assert export_run(db, run.run_id)
