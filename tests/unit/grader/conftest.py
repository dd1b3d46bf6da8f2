"""One grader for all tests that do not restart it; each test has runs, fakes and a cache of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grader_case import AgentSide, Case


@pytest.fixture(scope="session")
def shared_case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    case = Case(tmp_path_factory.mktemp("grader"))
    yield case
    case.stop()


@pytest.fixture
def case(shared_case: Case) -> Iterator[Case]:
    shared_case.new_scenario()
    yield shared_case
    shared_case.close_runs()


@pytest.fixture
def own_case(tmp_path: Path) -> Iterator[Case]:
    """For tests that stop it and start it again."""
    case = Case(tmp_path)
    yield case
    case.stop()


@pytest.fixture
def agent(case: Case) -> AgentSide:
    return case.add_run()
