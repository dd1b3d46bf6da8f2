"""`harness clean` removes what nobody owns of this home, and nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import docker
import pytest

from harness.cli import clean
from harness.cli.edge import guarded
from harness.home import Home
from harness.runner.hold import held
from harness.sandbox.engine import LABEL_HOME, LABEL_RUN

pytestmark = pytest.mark.docker
RUN = "20260101T000000_noop_abcd"


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def networks(engine: docker.DockerClient, own_settings: Home) -> Iterator[dict[str, str]]:
    """Networks: an orphan of this home, one of another home, one of other people."""
    mark = uuid.uuid4().hex[:8]
    labels = {
        "orphan": {LABEL_HOME: own_settings.label, LABEL_RUN: RUN},
        "other home": {LABEL_HOME: "0" * 12, LABEL_RUN: RUN},
        "other people": {},
    }
    ids = {
        name: engine.networks.create(
            f"clean-test-{mark}-{name.replace(' ', '-')}",
            labels=marks,
            internal=True,
            ipam=docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=f"10.214.{n}.0/28")]),
        ).id
        for n, (name, marks) in enumerate(labels.items(), start=200)
    }
    yield ids
    for identity in set(ids.values()) & existing(engine):
        engine.networks.get(identity).remove()


def existing(engine: docker.DockerClient) -> set[str]:
    return {network.id for network in engine.networks.list()}


def test_a_dry_run_removes_nothing(engine, networks, capsys):
    assert guarded(["clean", "--dry-run"]) == 0
    assert RUN in capsys.readouterr().out
    assert set(networks.values()) <= existing(engine)


def test_without_a_terminal_it_needs_yes(engine, networks, capsys):
    assert guarded(["clean"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert set(networks.values()) <= existing(engine)


def test_only_this_homes_orphans_go(engine, networks):
    assert guarded(["clean", "--yes"]) == 0
    left = existing(engine) & set(networks.values())
    assert networks["orphan"] not in left
    assert {networks["other home"], networks["other people"]} <= left


def test_a_runs_folder_goes_when_asked_for(own_settings: Home, capsys):
    folder = own_settings.run(RUN).path
    folder.mkdir()
    (folder / "agent.log").write_text("hello\n")
    assert guarded(["clean", "--run", RUN[:9], "--yes"]) == 0
    assert not folder.exists()


def test_with_nothing_to_do_it_says_so(own_settings: Home, capsys):
    assert guarded(["clean", "--yes"]) == 0
    assert "nothing to clean" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["clean"], ["clean", "--run", RUN]])
def test_a_run_that_is_taken_up_while_somebody_is_asked_stays(engine, networks, own_settings, monkeypatch, words):
    folder = own_settings.run(RUN)
    folder.path.mkdir(parents=True)
    with ExitStack() as driver:
        monkeypatch.setattr(clean, "confirm", lambda **_: driver.enter_context(held(folder)))
        guarded(words)
        assert networks["orphan"] in existing(engine)
        assert folder.path.is_dir()
