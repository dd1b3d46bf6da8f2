"""What people read of the record: the same numbers as table, JSON and CSV, and nothing can be changed."""

from __future__ import annotations

import csv
import io
import json

import pytest
from samples import llm_call

from harness.cli.edge import guarded
from harness.cli.show import _spend, facts_of, show_facts
from harness.domain.admin import EventIn
from harness.domain.runs import CONTINUATION
from harness.home import Home
from harness.store.database import open_writer
from harness.store.models import LlmSpend
from harness.store.records_llm import add_llm_calls
from harness.store.records_runs import add_event


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert guarded(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_show_has_baseline_submissions_best_improvement_and_place(recorded: Home, graded, capsys):
    out = output(capsys, "show", graded)
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "30.0" in lines["baseline"]
    assert "80.0" in lines["1"]
    assert "90.0" in lines["1"]
    assert "scored" in lines["1"]
    assert "the folder is empty" in lines["2"]
    assert "+60.0 points (95 % interval +" in lines["improvement"]
    assert ", P(> 0) = 1.000)" in lines["improvement"]
    assert "submission 1: 90.0 ± 10.0 % of 10 items (95 % interval 59.6 to 98.2)" in lines["best"]
    assert "6 won, 0 lost, 4 tied (McNemar's exact test: p = 0.031)" in lines["items"]
    assert "0.0 % (baseline), 0.0 % (best)" in lines["truncated"]
    assert "4.0 tokens (baseline), 4.0 tokens (best)" in lines["output"]
    assert "warning: lineage of submission 1: nearer to a sibling" in lines["finding"]
    assert "graded" in lines["verdict"]
    assert str(recorded.db_link) in lines["record"]
    assert str(recorded.run(graded).path) in lines["folder"]


def test_show_says_where_a_failed_agent_told_why(recorded: Home, graded, later, capsys):
    facts = facts_of(recorded, later)
    show_facts(facts)
    assert "harness logs" not in capsys.readouterr().out
    show_facts(facts | {"verdict": "agent_failed"})
    assert f"harness logs {later}" in capsys.readouterr().out


def test_show_as_json_has_the_same(recorded: Home, graded, later, capsys):
    facts = json.loads(output(capsys, "show", "latest", "--json"))
    assert (facts["run_id"], facts["verdict"], facts["submissions"]) == (later, "no_submission", [])
    facts = json.loads(output(capsys, "show", graded, "--json"))
    assert facts["improvement_pct"] == pytest.approx(60)
    assert facts["improvement_low_pct"] < 60 < facts["improvement_high_pct"]
    assert [one["state"] for one in facts["submissions"]] == ["scored", "rejected"]
    assert facts["best_submission"] == 1
    assert facts["improvement_p_value"] == pytest.approx(2 / 2**6)
    assert (facts["items_won"], facts["items_lost"], facts["items_tied"]) == (6, 0, 4)
    assert facts["submissions"][0]["final_low_pct"] == pytest.approx(59.6, abs=0.05)
    assert facts["baseline_outputs"] == facts["submissions"][0]["outputs"]
    assert facts["findings"][0]["evidence"] == {"nearest": "sibling"}
    assert "token_sha256" not in json.dumps(facts)
    assert graded.ljust(64, "0") not in json.dumps(facts)


def test_show_tells_what_the_driver_llm_cost_and_how_often_the_agent_went_on(recorded: Home, graded, later, capsys):
    db = open_writer(recorded.db)
    try:
        add_llm_calls(db, graded, [llm_call(number, graded, 0.5, is_listed=True) for number in range(1201)])
        add_llm_calls(db, later, [llm_call(1, later, is_listed=False), llm_call(2, later, 0, refused="spent")])
        add_event(db, later, EventIn(kind=CONTINUATION))
    finally:
        db.close()
    assert "1,201 calls, 8,407 tokens in, 2,402 of them cached, 3,603 out, 600.5000 USD" in output(
        capsys, "show", graded
    )
    out = output(capsys, "show", later)
    assert "1 calls (1 more refused)" in out
    assert "price not listed" in out
    assert "USD" not in out
    assert ["continued", "1", "times"] in [line.split() for line in out.splitlines()]
    facts = json.loads(output(capsys, "show", later, "--json"))
    assert facts["continuations"] == 1
    assert facts["llm"]["cost_usd"] == pytest.approx(0.1)
    assert facts["llm"]["is_price_listed"] is False


def test_calls_that_failed_are_told_beside_those_that_were_refused():
    spend = LlmSpend(calls=19, failed_calls=12, refused_calls=1, is_price_listed=False)
    shown = _spend({"llm": spend.model_dump(), "driver_model": "m"})
    assert shown.startswith("m: 19 calls (12 of them failed, 1 more refused), 0 tokens in")


def test_list_shows_runs_newest_first(recorded: Home, graded, later, capsys):
    rows = json.loads(output(capsys, "list", "--json"))
    assert [row["run_id"] for row in rows] == [later, graded]
    assert rows[1]["improvement_pct"] == pytest.approx(60)
    assert graded in output(capsys, "list")


@pytest.mark.parametrize("kind", ["benchmarks", "agents", "models"])
def test_list_shows_what_can_be_run(own_settings, capsys, kind):
    assert json.loads(output(capsys, "list", kind, "--json"))


def test_without_a_database_it_says_how_to_get_one(own_settings: Home, capsys):
    assert guarded(["list"]) == 3
    assert "make demo" in capsys.readouterr().err


def test_sql_as_table_json_and_csv(recorded: Home, graded, capsys):
    query = "select run_id, verdict, improvement_pct from v_runs order by run_id"
    assert graded in output(capsys, "sql", query)
    rows = json.loads(output(capsys, "sql", query, "--json"))
    assert [row["verdict"] for row in rows] == ["graded", "no_submission"]
    lines = list(csv.reader(io.StringIO(output(capsys, "sql", query, "--csv"))))
    assert lines[0] == ["run_id", "verdict", "improvement_pct"]
    assert lines[1][0] == graded


def test_sql_without_a_query_lists_views_and_queries(recorded: Home, capsys):
    out = output(capsys, "sql")
    assert "v_leaderboard" in out
    assert "select * from v_triage" in out


@pytest.mark.parametrize(
    "query",
    [
        "delete from run",
        "update run set final_pct = 100",
        "drop table run",
        "create table x (y)",
        "create temp table x (y)",
        "select 1; delete from run",
        "pragma query_only=off",
        "nonsense",
        "",
    ],
)
def test_sql_changes_nothing(recorded: Home, capsys, query):
    before = recorded.db.read_bytes()
    assert guarded(["sql", query]) == 2
    assert "fix:" in capsys.readouterr().err
    assert recorded.db.read_bytes() == before


def test_sql_cannot_write_to_another_file(recorded: Home, tmp_path, capsys):
    other = tmp_path / "other.db"
    assert guarded(["sql", f"attach '{other}' as other"]) != 0
    assert not other.exists() or other.stat().st_size == 0
