"""An empty database for each test, copied from one that was migrated once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.database import WritableDatabase, open_writer


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "harness.db"
    open_writer(path).close()
    return path


@pytest.fixture
def db(migrated: Path, tmp_path: Path) -> Iterator[WritableDatabase]:
    path = tmp_path / "db" / "harness.db"
    path.parent.mkdir()
    shutil.copyfile(migrated, path)
    database = open_writer(path)
    yield database
    database.close()
