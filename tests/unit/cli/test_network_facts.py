"""A run that reached the open network is marked wherever the command line shows runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from samples import START, plan, registered

from harness.cli.edge import guarded
from harness.domain.connections import Connection, ConnectionVerdict, network_event
from harness.domain.specs import NetworkPolicy
from harness.home import Home
from harness.store.database import open_writer
from harness.store.records_runs import add_event

PLAN = plan(3, network=NetworkPolicy.ALLOWLIST, allowed_hosts=("files.pythonhosted.org", "pypi.org"))


def connection(number: int, host: str, verdict: ConnectionVerdict = "allowed", down: int = 0) -> Connection:
    return Connection(number=number, at=START, host=host, port=443, verdict=verdict, bytes_up=1000, bytes_down=down)


def add_run(home: Home, connections: Sequence[Connection]) -> None:
    db = open_writer(home.db)
    try:
        registered(db, PLAN)
        add_event(db, PLAN.run_id, network_event([]))
        add_event(db, PLAN.run_id, network_event(connections))
    finally:
        db.close()


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert guarded(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_show_names_the_mark_the_hosts_and_what_went_through(recorded: Home, graded, capsys):
    rows = [connection(1, "pypi.org", down=2_000_000), connection(2, "pypi.org", "failed")]
    add_run(recorded, [*rows, *[connection(n, f"bad{n}.example", "refused") for n in range(20)]])
    out = output(capsys, "show", PLAN.run_id)
    assert "open-network, ranked apart: files.pythonhosted.org, pypi.org" in out
    assert "pypi.org: 1, 1 failed, 2.00 MB down, 0.00 MB up" in out
    assert "bad0.example 1, " in out
    assert "and 8 more (--json)" in out
    facts = json.loads(output(capsys, "show", PLAN.run_id, "--json"))
    assert (facts["network"], facts["label"], len(facts["connections"])) == ("allowlist", "open-network", 21)
    assert "open-network" not in output(capsys, "show", graded)


def test_a_list_has_the_mark_where_a_run_has_it(recorded: Home, capsys):
    assert "label" not in output(capsys, "list")
    add_run(recorded, [])
    assert "open-network" in output(capsys, "list")
