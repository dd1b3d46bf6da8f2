"""One home with one grader for all end-to-end tests; at the end nothing of it may be left on the machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from harness.home import Home, RunFolder
from harness.sandbox.compose import grader_container
from harness.sandbox.disk import detach_filesystem
from harness.sandbox.engine import connect
from tests.e2e.live import Harness, left_behind

AGENTS = Path(__file__).parent / "agents"
SHARED = AGENTS / "_shared"


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def home(engine: DockerClient, product_images: dict[str, str]) -> Iterator[Home]:
    """A home outside of the checkout; at the end of the session nothing of it may be left on the machine."""
    place = Path(tempfile.mkdtemp(prefix="harness-e2e-")).resolve()
    home = Home(place / "home")
    home.create()
    try:
        yield home
        left = left_behind(engine, home)
        assert left == [], f"left on the machine: {left}"
    finally:
        for folder in home.runs.iterdir():
            detach_filesystem(RunFolder(folder))
        for frozen in (path for path in place.rglob("*") if path.is_dir() and not path.is_symlink()):
            frozen.chmod(0o700)
        shutil.rmtree(place)


@pytest.fixture(scope="session")
def harness(engine: DockerClient, home: Home) -> Iterator[Harness]:
    """The command line on that home, with its grader up and the tests' own agents."""
    folder, agents = home.path.parent / "cwd", home.path.parent / "agents"
    folder.mkdir()
    for source in (path for path in AGENTS.iterdir() if path != SHARED):
        shutil.copytree(source, agents / source.name)
        for shared in SHARED.glob("*.py"):
            shutil.copyfile(shared, agents / source.name / shared.name)
    harness = Harness(home, folder, agents)
    with harness.up():
        yield harness
    assert grader_container(engine, home) is None
