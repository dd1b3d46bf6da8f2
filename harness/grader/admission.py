"""Admission: from a folder that an agent names to an immutable snapshot; each check guards the next.

1. The path is taken apart as text, then opened component by component; no link is followed (400).
2. The folder is listed once, up to a cap: kinds, names and sizes are judged from the listing, so that a FIFO is never
   opened and a sparse terabyte never read (422, 413).
3. Config, tokenizer and templates are read within bounds, only to be compared: the base model's own are used (notes).
4. Headers are read within a budget and must describe exactly the base model's tensors (422).
5. The tensors' bytes are copied into a stage, hashed, sketched and searched for NaN in one pass. Headers are written
   anew: nothing but tensors crosses.
6. Every file's identity, size and times, and the listing as a whole, must be what they were (422).
7. What is judged from here on is the copy: tied head, tree hash, copy of the base model. Then the stage is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from harness.checkpoint.fingerprint import Fingerprint
from harness.checkpoint.tree import HEAD, is_tied_head
from harness.domain.base import Frozen
from harness.domain.text import shown
from harness.errors import ErrorClass, Inadmissible, TooLarge, Unready
from harness.grader.base_model import BaseModelInfo
from harness.grader.companions import compare
from harness.grader.file_names import Role, check_entries, role_of
from harness.grader.opening import WAIT, Entry, entries_of, opened_folder, parts_of
from harness.grader.snapshots import SnapshotStore, Stage
from harness.grader.weights import Copier, header_budget, read_shards

COPY_OF_BASE = "copy of the base model"


class AdmissionLimits(Frozen):
    """Caps on a submission, beside those that follow from the base model."""

    max_entries: int = Field(512, gt=0)
    # F64 is the widest float that is cast.
    bytes_per_parameter: int = Field(8, gt=0)
    # Beside weights and as much as the base model's own non-weight files.
    slack_bytes: int = Field(64 * 2**20, ge=0)


class Admitted(Frozen):
    """An admitted checkpoint: `snapshot_path` is a complete model folder, `notes` are for the agent.

    `fingerprint` is for the record alone: nothing of what it shows is ever told to an agent.
    """

    tree_hash: str
    snapshot_path: Path
    notes: tuple[str, ...]
    size_bytes: int
    is_base_copy: bool
    fingerprint: Fingerprint


@dataclass(frozen=True)
class _Listing:
    """A listed and judged folder."""

    entries: tuple[Entry, ...]
    weights: tuple[Entry, ...]


def admit(
    workspace_fd: int,
    model_path: str,
    base: BaseModelInfo,
    store: SnapshotStore,
    limits: AdmissionLimits,
    check: Callable[[], None],
) -> Admitted:
    """Copies the checkpoint at `model_path` below the workspace into the store, or says exactly what is wrong with it.

    `check` is called before every chunk and once when the copy is complete; it raises to end the admission, for example
    when the run's time is up. Safe to call from many threads at once.

    Raises:
        RequestError: PathRefused (400), TooLarge (413), Inadmissible (422), Unready (503), or what `check` raises.
    """
    with opened_folder(workspace_fd, parts_of(model_path)) as folder_fd:
        listing = _listing(folder_fd, base, limits)
        notes = compare(folder_fd, listing.entries, base)
        shards = read_shards(folder_fd, listing.weights, base)
        size = sum(entry.size for entry in listing.weights)
        with store.stage(size + base.companion_bytes) as stage:
            fingerprint = Copier(folder_fd, stage, check).copy(shards)
            _check_same_listing(folder_fd, listing.entries, limits)
            _check_head(fingerprint, base)
            check()
            _add_companions(stage, base)
            tree_hash = fingerprint.tree_hash
            path = stage.commit(snapshot_key(tree_hash, base))
    is_base_copy = tree_hash == base.tree_hash
    return Admitted(
        tree_hash=tree_hash,
        snapshot_path=path,
        notes=(COPY_OF_BASE, *notes) if is_base_copy else notes,
        size_bytes=size,
        is_base_copy=is_base_copy,
        fingerprint=fingerprint,
    )


def snapshot_key(tree_hash: str, base: BaseModelInfo) -> str:
    """The snapshot's folder name. Two base models with equal shapes may differ in tokenizer or template: both count."""
    return f"{tree_hash}-{base.files_hash[:12]}"


def _listing(folder_fd: int, base: BaseModelInfo, limits: AdmissionLimits) -> _Listing:
    entries = entries_of(folder_fd, limits.max_entries)
    check_entries(entries, base.file_names)
    most = base.n_parameters * limits.bytes_per_parameter + header_budget(base)
    if base.embedding:
        most += base.tensors[base.embedding].n_elements * limits.bytes_per_parameter
    most += base.companion_bytes + limits.slack_bytes
    total = sum(entry.size for entry in entries)
    if total > most:
        largest = max(entries, key=lambda entry: entry.size)
        raise TooLarge(
            f"the folder has {total} bytes; a checkpoint of this base model has at most {most} "
            f"(the largest file is {shown(largest.name)} with {largest.size})",
            "Submit the weights of one model and nothing else.",
        )
    return _Listing(entries, tuple(entry for entry in entries if role_of(entry.name) is Role.WEIGHTS))


def _check_same_listing(folder_fd: int, before: tuple[Entry, ...], limits: AdmissionLimits) -> None:
    after = entries_of(folder_fd, limits.max_entries)
    if after != before:
        names = sorted({entry.name for entry in set(before) ^ set(after)})
        raise Inadmissible(
            f"the folder changed while it was being copied: {', '.join(shown(name) for name in names[:3])}",
            WAIT,
            error_class=ErrorClass.CHANGED_WHILE_COPIED,
        )


def _check_head(fingerprint: Fingerprint, base: BaseModelInfo) -> None:
    """A loader that finds a head unlike the embedding unties the two: that would be another architecture."""
    tensors = {tensor.name: tensor.hashed for tensor in fingerprint.tensors}
    if base.is_tied and HEAD in tensors and base.embedding and not is_tied_head(tensors):
        raise Inadmissible(
            f"{HEAD} differs from {base.embedding}, but the base model ties them",
            f"Train with tied embeddings, or leave {HEAD} out of the checkpoint.",
            error_class=ErrorClass.TENSOR_MISMATCH,
        )


def _add_companions(stage: Stage, base: BaseModelInfo) -> None:
    for name in sorted(base.companions):
        try:
            with (base.folder / name).open("rb") as source, stage.file(name) as target:
                while chunk := source.read(2**20):
                    target.write(chunk)
        except OSError as error:
            raise Unready(f"the grader cannot read the base model's {name}", "Submit again later.") from error
