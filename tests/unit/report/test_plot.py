"""The picture of a run, from a database with known numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import samples

from harness.domain.runs import EndedBy
from harness.errors import UsageError
from harness.report.plot import draw, picture_of
from harness.store.database import WritableDatabase, open_writer

BASE = samples.items([1, 0, 0, 0], [1, 1, 0, 0])
BEST = samples.items([1, 1, 1, 0], [1, 1, 1, 0])
LATER = samples.items([1, 1, 0, 0], [1, 1, 1, 1])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[WritableDatabase]:
    database = open_writer(tmp_path / "harness.db")
    samples.graded(database, samples.plan(1), BASE, BEST, LATER)
    yield database
    database.close()


def test_a_run_is_drawn_from_the_scores_that_decide(db: WritableDatabase) -> None:
    picture = picture_of(db, samples.plan(1).run_id)
    assert picture.baseline is not None
    assert picture.baseline.score_pct == 50
    assert [(point.number, point.score.score_pct, point.is_best) for point in picture.points] == [
        (1, 75, True),
        (2, 100, False),
    ]
    assert picture.improvement.startswith("+25.0 points")


def test_the_file_is_a_picture_and_the_same_each_time(db: WritableDatabase, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = picture_of(db, samples.plan(1).run_id)
    draw(picture, tmp_path / "a" / "run.svg")
    assert "+25.0 points" in (tmp_path / "a" / "run.svg").read_text()
    draw(picture, tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused_with_the_fix(db: WritableDatabase, tmp_path: Path) -> None:
    empty = samples.registered(db, samples.plan(2, agent="noop"))
    samples.closed(db, empty.run_id, EndedBy.FINISHED)
    with pytest.raises(UsageError, match="no scored submission"):
        picture_of(db, empty.run_id)
    with pytest.raises(UsageError, match="no picture format"):
        draw(picture_of(db, samples.plan(1).run_id), tmp_path / "run.gif")
