"""The weight files of a submission: headers against the base model's, then one pass that copies, hashes and sketches.

What reaches the snapshot is the tensors' bytes alone: the header is written anew from what was verified.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.checkpoint.fingerprint import Fingerprint, FingerprintMaker, width_of
from harness.checkpoint.header import (
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    Header,
    Placement,
    TensorInfo,
    encode_header,
    header_length,
    parse_header,
)
from harness.checkpoint.tree import HEAD, INDEX, SINGLE
from harness.domain.text import shown
from harness.errors import ErrorClass, Inadmissible
from harness.grader.base_model import BaseModelInfo
from harness.grader.file_names import MERGE
from harness.grader.finite import CASTABLE, first_non_finite
from harness.grader.opening import Entry, check_unchanged, opened_file, read_into, read_up_to
from harness.grader.snapshots import Stage

# A multiple of every dtype's size, so that no chunk ends inside an element.
CHUNK_BYTES = 4 * 2**20
# Below this, handing the hash to another thread costs more than it saves.
MIN_OVERLAPPED_BYTES = 512 * 2**10
MIN_HEADER_BUDGET = 2**20
HEADER_FACTOR = 4
MAX_NAMED = 3
SAME_ARCHITECTURE = "Submit the base model's own architecture, saved with model.save_pretrained()."
# Prefixes that wrappers leave in tensor names, and how to get rid of them.
WRAPPERS = {
    "base_model.model.": MERGE,
    "module.": "Save the unwrapped model: accelerator.unwrap_model(model).save_pretrained(<folder>).",
    "_orig_mod.": "Save the uncompiled model: model._orig_mod.save_pretrained(<folder>).",
}


@dataclass(frozen=True, slots=True)
class Shard:
    """One weight file whose header is verified."""

    entry: Entry
    header: Header


def header_budget(base: BaseModelInfo) -> int:
    """Bytes of header that all files of a submission may have together: parsing must stay cheap."""
    return min(MAX_HEADER_BYTES, max(MIN_HEADER_BUDGET, HEADER_FACTOR * base.header_bytes))


def read_shards(folder_fd: int, entries: Sequence[Entry], base: BaseModelInfo) -> tuple[Shard, ...]:
    """The shards, with exactly the base model's tensors among them; only headers are read.

    Raises:
        Inadmissible: a broken header, a tensor twice, missing, unknown, or of another shape or kind.
    """
    budget = header_budget(base)
    shards: list[Shard] = []
    owners: dict[str, str] = {}
    for entry in entries:
        header = _read_header(folder_fd, entry, budget)
        budget -= header.data_start
        for place in header.placements:
            if place.name in owners:
                raise Inadmissible(
                    f"{shown(place.name)} is in both {shown(owners[place.name])} and {shown(entry.name)}",
                    "Remove the weight files of an earlier save; each tensor may be there once.",
                    error_class=ErrorClass.BAD_SAFETENSORS,
                )
            owners[place.name] = entry.name
            _check_tensor(place, entry.name, base)
        shards.append(Shard(entry, header))
    _check_missing(owners, base)
    return tuple(shards)


class Copier:
    """Copies shards into a stage; `check` is called before every chunk and may raise to end it."""

    def __init__(self, folder_fd: int, stage: Stage, check: Callable[[], None]) -> None:
        self._folder_fd = folder_fd
        self._stage = stage
        self._check = check
        self._buffer = memoryview(bytearray(CHUNK_BYTES))

    def copy(self, shards: Sequence[Shard]) -> Fingerprint:
        """Copies all `shards` under their final names, with an index where there are several; returns what was copied.

        Raises:
            Inadmissible: a file changed meanwhile, or holds NaN or infinity.
            Unready: the disk is full or broken.
        """
        owners = {place.name: number for number, shard in enumerate(shards, 1) for place in shard.header.placements}
        names = {n: SINGLE if len(shards) == 1 else _shard_name(n, len(shards)) for n in range(1, len(shards) + 1)}
        maker = FingerprintMaker(width_of(list(owners)))
        with ThreadPoolExecutor(1, thread_name_prefix="hash") as pool:
            for number, shard in enumerate(shards, 1):
                self._copy_shard(shard, names[number], maker, pool)
        if len(shards) > 1:
            total = sum(place.info.n_bytes for shard in shards for place in shard.header.placements)
            weight_map = {name: names[number] for name, number in sorted(owners.items())}
            with self._stage.file(INDEX) as file:
                file.write(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2).encode())
        return maker.fingerprint()

    def _copy_shard(self, shard: Shard, name: str, maker: FingerprintMaker, pool: ThreadPoolExecutor) -> None:
        with opened_file(self._folder_fd, shard.entry) as source_fd, self._stage.file(name) as target:
            os.posix_fadvise(source_fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            target.write(encode_header(shard.header.placements))
            for place in shard.header.placements:
                digest = hashlib.sha256()
                maker.begin(place)
                for begin in range(place.begin, place.end, CHUNK_BYTES):
                    self._check()
                    chunk = self._buffer[: min(CHUNK_BYTES, place.end - begin)]
                    read_into(chunk, source_fd, shard.header.data_start + begin, shard.entry)
                    if len(chunk) < MIN_OVERLAPPED_BYTES:
                        digest.update(chunk)
                        _sketch(maker, chunk, place, begin, shard.entry)
                        target.write(chunk)
                        continue
                    # Hashing is the slowest part and needs no lock of the interpreter: it runs beside the others.
                    hashing = pool.submit(digest.update, chunk)
                    try:
                        _sketch(maker, chunk, place, begin, shard.entry)
                        target.write(chunk)
                    finally:
                        hashing.result()
                maker.end(place, digest.hexdigest())
            check_unchanged(source_fd, shard.entry)


def _shard_name(number: int, count: int) -> str:
    return f"model-{number:05d}-of-{count:05d}.safetensors"


def _read_header(folder_fd: int, entry: Entry, budget: int) -> Header:
    with opened_file(folder_fd, entry) as file_fd:
        prefix = read_up_to(file_fd, LENGTH_BYTES)
        length = header_length(prefix, file=entry.name, file_bytes=entry.size, limit=max(0, budget))
        raw = read_up_to(file_fd, LENGTH_BYTES + length)[LENGTH_BYTES:]
        check_unchanged(file_fd, entry)
    return parse_header(raw, file=entry.name, data_bytes=entry.size - LENGTH_BYTES - length)


def _check_tensor(place: Placement, file: str, base: BaseModelInfo) -> None:
    wanted = _wanted(place.name, base)
    if wanted is None:
        raise _mismatch(
            f"{shown(file)} holds {shown(place.name)}, which the base model has not", _unwrapping(place.name)
        )
    if place.info.shape != wanted.shape:
        fix = SAME_ARCHITECTURE
        if place.name in (base.embedding, HEAD):
            fix = "Do not resize the token embeddings: the base model's tokenizer is used."
        raise _mismatch(
            f"{shown(place.name)} in {shown(file)} is {place.info}, the base model's is {wanted}",
            fix,
        )
    is_cast = wanted.dtype in CASTABLE and place.info.dtype in CASTABLE
    if place.info.dtype != wanted.dtype and not is_cast:
        raise _mismatch(
            f"{shown(place.name)} in {shown(file)} is {place.info.dtype}, the base model's is {wanted.dtype}",
            f"Save it as one of {', '.join(CASTABLE)}." if wanted.dtype in CASTABLE else f"Save it as {wanted.dtype}.",
        )


def _wanted(name: str, base: BaseModelInfo) -> TensorInfo | None:
    if name == HEAD and name not in base.tensors and base.is_tied and base.embedding:
        return base.tensors[base.embedding]
    return base.tensors.get(name)


def _unwrapping(name: str) -> str:
    return next((fix for prefix, fix in WRAPPERS.items() if name.startswith(prefix)), SAME_ARCHITECTURE)


def _check_missing(found: Mapping[str, str], base: BaseModelInfo) -> None:
    missing = [name for name in sorted(base.tensors) if name not in found and not (name == HEAD and base.is_tied)]
    if missing:
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        raise _mismatch(
            f"the weights lack {', '.join(missing[:MAX_NAMED])}{more}",
            "Submit all shards of the full model, not a part of it.",
        )


def _mismatch(what: str, fix: str) -> Inadmissible:
    return Inadmissible(what, fix, error_class=ErrorClass.TENSOR_MISMATCH)


def _sketch(maker: FingerprintMaker, chunk: memoryview, place: Placement, begin: int, entry: Entry) -> None:
    """Adds a chunk to the sketch, and refuses NaN and infinity, which mostly show in the sketch already."""
    if maker.add(chunk):
        return
    index = first_non_finite(chunk, place.info.dtype)
    if index is not None:
        index += (begin - place.begin) * place.info.n_elements // place.info.n_bytes
        raise Inadmissible(
            f"{shown(place.name)} in {shown(entry.name)} holds NaN or infinity (element {index})",
            "Training diverged or overflowed: submit a checkpoint with finite weights.",
            error_class=ErrorClass.NON_FINITE_WEIGHTS,
        )
