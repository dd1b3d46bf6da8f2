"""Whose doing an unforeseen error of an admission is: what breaks on the base model too is the grader's own trouble.

Else whoever finds a checkpoint that a check falls over would have its run void, and left out of means.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from loguru import logger

from harness.errors import ErrorClass, Inadmissible, RequestError, Unready
from harness.grader.admission import AdmissionLimits, admit
from harness.grader.base_model import BaseModelInfo
from harness.grader.snapshots import STAGE_PREFIX, SnapshotStore
from harness.grader.workshop import Stopped, own_trouble

# Of the machine, whatever was being read.
MACHINE_ERRORS = (
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.ESTALE,
)


def blamed(error: Exception, base: BaseModelInfo, snapshots: Path, check: Callable[[], None]) -> RequestError:
    """What to tell of `error`, which an admission ended with: 422 where the base model passes the same admission.

    Raises:
        Stopped: `check` says so.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in MACHINE_ERRORS):
        return own_trouble()
    if not _is_base_admitted(base, snapshots, check):
        return own_trouble()
    return Inadmissible(
        f"this checkpoint could not be checked ({type(error).__name__}); the base model could",
        "Save it anew with save_pretrained, into an empty folder.",
        error_class=ErrorClass.UNSCORABLE,
    )


def _is_base_admitted(base: BaseModelInfo, snapshots: Path, check: Callable[[], None]) -> bool:
    """Whether admission gets through with the base model; that it refuses a file beside the weights is no matter."""
    # The name of a stage: one that a kill leaves behind is removed with those.
    with tempfile.TemporaryDirectory(prefix=STAGE_PREFIX, dir=snapshots) as scratch:
        parent = os.open(base.folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            admit(parent, base.folder.name, base, SnapshotStore(Path(scratch)), AdmissionLimits(), check)
        except Stopped:
            raise
        except RequestError as refusal:
            return not isinstance(refusal, Unready)
        except Exception:  # noqa: BLE001 - whatever breaks the control is the grader's trouble
            logger.exception("nor can the base model be admitted")
            return False
        finally:
            os.close(parent)
    return True
