"""`POST /validate`: admission, a real load and one token; no score, no record, no snapshot left behind."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from harness.errors import ErrorClass, HarnessError, Inadmissible, LoadFailed, NoGpuMemory, RequestError
from harness.grader.admission import Admitted
from harness.grader.gpu_memory import refused
from harness.grader.intake import Intake
from harness.grader.opening import parts_of
from harness.grader.queue import Workers
from harness.grader.registry import ActiveRun
from harness.grader.schemas import SubmitRequest, ValidateReply
from harness.grader.snapshots import SnapshotStore
from harness.grader.workshop import own_trouble, run_ended
from harness.home import Home

# Below the snapshots, because the inference service sees that folder.
CHECKS = ".checks"
FOLDER_MODE = 0o755


class Validation:
    """Checks of the checkpoints that agents ask about, one of a run at a time."""

    def __init__(self, home: Home, intake: Intake, workers: Workers) -> None:
        self._home = home
        self._intake = intake
        self._workers = workers

    def clean(self) -> None:
        """Removes what a dead grader left."""
        _remove(self._home.snapshots / CHECKS)

    async def validate(self, run: ActiveRun, asked: SubmitRequest) -> ValidateReply:
        """What a submission of this folder would meet, short of its score.

        Raises:
            RequestError: what is wrong with it, as `/submit` would say; 422 `load_failed` if the engine cannot serve
                it, `unscorable` if the engine breaks on it and not on the base model.
        """
        started = time.monotonic()
        if run.is_over:
            raise run_ended()
        store = SnapshotStore(self._home.snapshots / CHECKS / run.run_id)
        try:
            await asyncio.to_thread(_make, store.root)
            admitted = await asyncio.wrap_future(self._intake.inspect(run, asked.model_path, store))
            load_seconds = await self._loaded(run, admitted)
        finally:
            await asyncio.to_thread(_remove, store.root)
        return ValidateReply(
            model_path="/".join(parts_of(asked.model_path)),
            size_bytes=admitted.size_bytes,
            load_seconds=round(load_seconds, 2),
            elapsed_seconds=round(time.monotonic() - started, 2),
            note="; ".join(text for text in (asked.ignored(), *admitted.notes) if text) or None,
        )

    async def _loaded(self, run: ActiveRun, admitted: Admitted) -> float:
        folder = admitted.snapshot_path.relative_to(self._home.path)
        try:
            return await asyncio.wrap_future(self._workers.check_load(run, folder))
        except RequestError:
            raise
        except LoadFailed as error:
            raise Inadmissible(
                "the engine could not load this checkpoint",
                "Load it yourself with transformers from its folder; compare its tensors with the base model's.",
                error_class=ErrorClass.LOAD_FAILED,
            ) from error
        except NoGpuMemory as error:
            raise refused(error.what) from error
        except HarnessError as error:
            raise own_trouble() from error


def _make(root: Path) -> None:
    for folder in (root.parent, root):
        folder.mkdir(exist_ok=True)
        # The inference service has another uid, whatever this process's umask is.
        folder.chmod(FOLDER_MODE)


def _remove(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
