"""What admission of a checkpoint costs: copy, hash, NaN search, sync to disk; beside `cp` and one pass of SHA-256.

`python tests/bench/admission.py [--size-mb 1500] [--times 5] [--folder /somewhere] [--json]`. One BF16 model of that
size in two shards, in the page cache before the first measurement; the variants take turns. Admission is the grader's
own function on the real snapshot store, without the HTTP around it. Needs three times the size on the disk of
`--folder`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from machine import machine, report

from harness.grader.admission import AdmissionLimits, admit
from harness.grader.base_model import BaseModelInfo
from harness.grader.snapshots import SnapshotStore

SHARDS = 2
TENSORS_PER_SHARD = 12
COLUMNS = 2048
READ_BYTES = 2**20
CONFIG = {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=int, default=1500)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to work; default: the temporary folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="harness-bench-", dir=options.folder) as folder:
        root = Path(folder)
        write_model(root / "workspace" / "checkpoint", options.size_mb)
        where = machine()
        took = measured(root, options.times)
    medians = {name: median(times) for name, times in took.items()}
    ours = medians["admission"]
    figures = {
        "machine": where,
        "size_mb": options.size_mb,
        "seconds": took,
        "median_s": medians,
        "ratio_to_admission": {name: ours / seconds for name, seconds in medians.items() if name != "admission"},
    }
    lines = [f"a checkpoint of {options.size_mb} MB, median of {options.times}"]
    for name, seconds in medians.items():
        ratio = "" if name == "admission" else f"  admission takes {ours / seconds:.2f} times as long"
        lines.append(f"{name:24} {seconds:6.2f} s  {options.size_mb / seconds:6.0f} MB/s{ratio}")
    report(figures, lines, as_json=options.json)


def measured(root: Path, times: int) -> dict[str, list[float]]:
    """Seconds of each variant, one turn after the other."""
    variants: dict[str, Callable[[Path, Path], None]] = {
        "admission": admitted,
        "cp, then hashlib": lambda source, target: hashed(copied(source, target)),
        "cp, fsync, then hashlib": lambda source, target: hashed(synced(copied(source, target))),
        "cp, then sha256sum": lambda source, target: summed(copied(source, target)),
    }
    source, took = root / "workspace" / "checkpoint", {name: [] for name in variants}
    for _ in range(times):
        for name, variant in variants.items():
            target = root / "target"
            target.mkdir()
            os.sync()
            started = time.perf_counter()
            variant(source, target)
            took[name].append(time.perf_counter() - started)
            print(f"{name}: {took[name][-1]:.2f} s", file=sys.stderr, flush=True)
            shutil.rmtree(target)
    return took


def admitted(source: Path, target: Path) -> None:
    base = BaseModelInfo.load(source, "another tree hash")
    workspace = os.open(source.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        admit(workspace, source.name, base, SnapshotStore(target), AdmissionLimits(), lambda: None)
    finally:
        os.close(workspace)


def copied(source: Path, target: Path) -> Path:
    subprocess.run(["cp", "-r", source, target], check=True)
    return target / source.name


def synced(folder: Path) -> Path:
    for path in folder.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    return folder


def hashed(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                digest.update(chunk)


def summed(folder: Path) -> None:
    subprocess.run(["sha256sum", *sorted(folder.iterdir())], check=True, stdout=subprocess.DEVNULL)


def write_model(folder: Path, size_mb: int) -> None:
    """A model folder of that size: shards of BF16 matrices with small random weights."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    rows = size_mb * 1_000_000 // (SHARDS * TENSORS_PER_SHARD * COLUMNS * 2)
    weights = np.random.default_rng(0).standard_normal((rows, COLUMNS), dtype=np.float32)
    # The upper half of an F32 is a BF16.
    data = (weights.view(np.uint32) >> 16).astype("<u2").tobytes()
    for shard in range(1, SHARDS + 1):
        names = [f"model.layers.{shard}.{n}.weight" for n in range(TENSORS_PER_SHARD)]
        header = {
            name: {"dtype": "BF16", "shape": [rows, COLUMNS], "data_offsets": [n * len(data), (n + 1) * len(data)]}
            for n, name in enumerate(names)
        }
        raw = json.dumps(header).encode()
        with (folder / f"model-{shard:05d}-of-{SHARDS:05d}.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(raw)) + raw)
            for _ in names:
                file.write(data)


if __name__ == "__main__":
    main()
