"""`harness up`, `doctor`, `import` and `down` on real Docker, for a home of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from harness.cli.edge import guarded
from harness.home import Home
from harness.sandbox.compose import grader_container
from harness.sandbox.engine import connect

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("product_images")]


@pytest.fixture
def grader(own_settings: Home, capsys: pytest.CaptureFixture[str]) -> Iterator[Home]:
    try:
        assert guarded(["up"]) == 0, capsys.readouterr().err
        yield own_settings
    finally:
        assert guarded(["down", "--force"]) == 0


def container_of(home: Home) -> str | None:
    client = connect()
    try:
        found = grader_container(client, home)
    finally:
        client.close()
    return found.container_id if found else None


def test_up_twice_keeps_the_grader_and_down_keeps_the_record(grader: Home, capsys):
    first = container_of(grader)
    assert guarded(["up"]) == 0
    assert container_of(grader) == first is not None
    for said in ("the grader was stopped", "there was no grader"):
        capsys.readouterr()
        assert guarded(["sql", "select count(*) as n from run", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [{"n": 0}]
        assert guarded(["down"]) == 0
        assert said in capsys.readouterr().err
        assert container_of(grader) is None


def test_doctor_lists_every_probe(grader: Home, capsys):
    capsys.readouterr()
    assert guarded(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert all(probe["ok"] for probe in report["probes"])
    assert {"host_through_gateway", "other_run", "outside", "hidden_data", "admin_routes", "model_read_only"} <= {
        probe["name"] for probe in report["probes"]
    }
    assert report["machine"]["size_limit"] in ("loop", "watch")
