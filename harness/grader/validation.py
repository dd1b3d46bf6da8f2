"""`POST /validate`: admission, a real load and one token; no score, no record, no snapshot left behind."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ErrorClass, HarnessError, Inadmissible, LoadFailed, RequestError, RunEnded
from harness.grader.admission import Admitted
from harness.grader.opening import parts_of
from harness.grader.registry import ActiveRun
from harness.grader.schemas import SubmitRequest, ValidateReply
from harness.grader.snapshots import SnapshotStore
from harness.grader.workshop import own_trouble
from harness.home import Home

if TYPE_CHECKING:
    from harness.grader.service import Grader

# Below the snapshots, because the inference service sees that folder.
CHECKS = ".checks"
FOLDER_MODE = 0o755


async def validate(grader: Grader, run: ActiveRun, asked: SubmitRequest) -> ValidateReply:
    """What a submission of this folder would meet, short of its score.

    Raises:
        RequestError: what is wrong with it, as `/submit` would say; 422 `load_failed` if the engine cannot serve it.
    """
    started = time.monotonic()
    if run.is_over:
        raise RunEnded("this run has ended", "Nothing can be handed in any more.")
    store = SnapshotStore(grader.home.snapshots / CHECKS / run.run_id)
    try:
        await grader.in_thread(_make, store.root)
        admitted = await asyncio.wrap_future(grader.intake.inspect(run, asked.model_path, store))
        load_seconds = await _loaded(grader, run, admitted)
    finally:
        await grader.in_thread(_remove, store.root)
    return ValidateReply(
        model_path="/".join(parts_of(asked.model_path)),
        size_bytes=admitted.size_bytes,
        load_seconds=round(load_seconds, 2),
        elapsed_seconds=round(time.monotonic() - started, 2),
        note="; ".join(text for text in (asked.ignored(), *admitted.notes) if text) or None,
    )


async def _loaded(grader: Grader, run: ActiveRun, admitted: Admitted) -> float:
    folder = admitted.snapshot_path.relative_to(grader.home.path)
    try:
        return await asyncio.wrap_future(grader.workers.check_load(run, folder))
    except RequestError:
        raise
    except LoadFailed as error:
        raise Inadmissible(
            "the engine could not load this checkpoint",
            "Load it yourself with transformers from its folder; compare its tensors with the base model's.",
            error_class=ErrorClass.LOAD_FAILED,
        ) from error
    except HarnessError as error:
        raise own_trouble() from error


def clean_checks(home: Home) -> None:
    """Removes what a dead grader left of validations."""
    _remove(home.snapshots / CHECKS)


def _make(root: Path) -> None:
    for folder in (root.parent, root):
        folder.mkdir(exist_ok=True)
        # The inference service has another uid, whatever this process's umask is.
        folder.chmod(FOLDER_MODE)


def _remove(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
