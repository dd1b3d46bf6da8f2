"""Fuzzes the check of safetensors headers: `python tests/fuzz/safetensors_header.py --seconds 60 --seed 1`.

Right files are made wrong in every way that is easy to think of: bits, bytes, JSON values, offsets that lie, huge and
odd numbers, deep nesting, keys twice, Unicode, lengths. For each input it must hold that

1. it is read, or refused with `Inadmissible`, and nothing else happens;
2. that takes time and memory in proportion to the input;
3. what is read is read by the `safetensors` library too, with the same tensors and bytes (where it is installed);
4. the header that the grader writes anew from it is read as the same tensors by both.

Exit code 1 and a reproducer where one does not.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import struct
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.checkpoint.header import DTYPE_BYTES, LENGTH_BYTES, Header, encode_header, header_length, parse_header
from harness.errors import Inadmissible

try:
    import safetensors
except ImportError:  # a development dependency; without it the third point is left out
    safetensors = None

ROOT = Path(__file__).resolve().parents[2]
REAL = ("benchmarks/arithmetic/models/tiny-arith", "agents/oracle/checkpoints/arithmetic")
LIMIT = 2**20
MAX_SECONDS, MAX_BYTES_PER_BYTE, MAX_BYTES = 2.0, 400, 2**20
# Below this, what a refusal itself takes is most of it.
LARGE_BYTES = 10_000
# Measuring memory makes everything several times slower.
MEASURE_EVERY = 50
NUMBERS = [
    -1, 0, 1, 2, 3, 4, 7, 8, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400,
    0.0, -0.0, 1.0, 1e300, True, False, None, "1", [], {}, [1], float("nan"), float("inf"),
]  # fmt: skip
RAW_NUMBERS = [
    b"-0",
    b"01",
    b"1.0",
    b"1e0",
    b"1E2",
    b"+1",
    b"0x1",
    b"1_0",
    b"NaN",
    b"Infinity",
    b"9" * 5000,
    b"\xd9\xa1",
]
NAMES = [
    "",
    "a",
    "__metadata__",
    "a" * 513,
    "\u0000",
    "\ud800",
    "é",
    "e\u0301",
    "\u202e",
    "😀",
    "a/b",
    "\n",
    "lm_head.weight",
]
RAW_TEXT = [
    b"\\ud800",
    b"\\u0000",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xef\xbb\xbf",
    b"\\x41",
    b"\t",
    b"\x00",
    b"\\/",
]


@dataclass
class Tally:
    """What came of a fuzz run."""

    inputs: int = 0
    read: int = 0
    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    most_memory: float = 0.0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def seeds(random_: random.Random) -> list[tuple[dict[str, Any], bytes]]:
    """Right headers with their data: those of the real models here (with few bytes), and made-up ones."""
    made = [({}, b"")]
    for folder in REAL:
        raw = (ROOT / folder / "model.safetensors").read_bytes()
        length = int.from_bytes(raw[:LENGTH_BYTES], "little")
        names = list(json.loads(raw[LENGTH_BYTES : LENGTH_BYTES + length]))
        made.append(placed({name: ("F32", [2, 2]) for name in names if name != "__metadata__"}, random_))
    for _ in range(30):
        n_tensors = random_.choice([1, 1, 2, 3, 8])
        made.append(placed({f"t{n}": any_kind(random_) for n in range(n_tensors)}, random_))
    return made


def any_kind(random_: random.Random) -> tuple[str, list[int]]:
    """A dtype and a shape of few elements."""
    return random_.choice(sorted(DTYPE_BYTES)), [random_.randrange(4) for _ in range(random_.randrange(4))]


def placed(tensors: dict[str, tuple[str, list[int]]], random_: random.Random) -> tuple[dict[str, Any], bytes]:
    """A right header and its data, random bytes."""
    document: dict[str, Any] = {"__metadata__": {"format": "pt"}} if random_.random() < 0.5 else {}
    reached = 0
    for name, (dtype, shape) in tensors.items():
        size = DTYPE_BYTES[dtype]
        for side in shape:
            size *= side
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": [reached, reached + size]}
        reached += size
    return document, random_.randbytes(reached)


def mutated(seed: tuple[dict[str, Any], bytes], random_: random.Random) -> bytes:
    """A file made from a right one; now and then it is still right."""
    document, data = json.loads(json.dumps(seed[0])), seed[1]
    for _ in range(random_.choice([0, 0, 1, 1, 1, 2, 3])):
        document = mutated_document(document, random_)
    raw = written(document, random_)
    for _ in range(random_.choice([0, 0, 0, 1, 1, 2, 6])):
        raw = mutated_text(raw, random_)
    length = len(raw)
    if random_.random() < 0.05:
        length = random_.choice([0, 1, 2, len(raw) - 1, len(raw) + 1, len(raw) + len(data), 2**32, 2**63, 2**64 - 1])
    content = struct.pack("<Q", max(0, length)) + raw + data
    if random_.random() < 0.1:
        content = mutated_bytes(content, random_)
    return content


def mutated_document(document: Any, random_: random.Random) -> Any:
    """One value, name or key of a header's document changed."""
    if not isinstance(document, dict) or not document or random_.random() < 0.02:
        return random_.choice([*NUMBERS, {"a": document}, [document], nested(random_)])
    name = random_.choice(list(document))
    value = document[name]
    kind = random_.randrange(6)
    if kind == 0:
        document.pop(name)
        document[random_.choice(NAMES)] = value
    elif kind == 1:
        document[random_.choice(NAMES)] = json.loads(json.dumps(value))
    elif kind == 2:
        document.pop(name)
    elif not isinstance(value, dict) or not value:
        document[name] = random_.choice(NUMBERS)
    elif kind == 3:
        value[random_.choice([*value, "more", "dtype"])] = random_.choice(
            [*NUMBERS, nested(random_), "F32", "F64", "F4"]
        )
    else:
        key = random_.choice(list(value))
        if isinstance(value[key], list) and value[key]:
            mutate_list(value[key], random_)
        else:
            value[key] = random_.choice([*NUMBERS, *sorted(DTYPE_BYTES)])
    return document


def mutate_list(numbers: list[Any], random_: random.Random) -> None:
    """One of a shape's or of two offsets' numbers changed, added or removed."""
    at, kind = random_.randrange(len(numbers)), random_.randrange(5)
    if kind == 0:
        numbers[at] = random_.choice(NUMBERS)
    elif kind == 1:
        numbers.insert(at, random_.choice([0, 1, 1, 2**62, 2**63 - 1]))
    elif kind == 2:
        del numbers[at]
    elif kind == 3:
        numbers.reverse()
    elif isinstance(numbers[at], int):
        numbers[at] += random_.choice([-8, -4, -1, 1, 4, 8])


def nested(random_: random.Random) -> Any:
    """A value inside many others; deeper ones are made of text."""
    value: Any = 1
    for _ in range(random_.choice([2, 20, 200])):
        value = [value] if random_.random() < 0.5 else {"a": value}
    return value


def written(document: Any, random_: random.Random) -> bytes:
    """As JSON, in one of the ways there are to write the same."""
    text = json.dumps(
        document,
        ensure_ascii=random_.random() < 0.5,
        separators=random_.choice([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]),
    )
    return text.encode("utf-8", "surrogatepass") + b" " * random_.choice([0, 0, 1, 7, 100])


def mutated_text(raw: bytes, random_: random.Random) -> bytes:
    """The header's text changed in one place."""
    kind = random_.randrange(7)
    if kind == 0:
        return mutated_bytes(raw, random_)
    if kind == 1:
        return replaced(raw, rb"-?\d+", random_.choice(RAW_NUMBERS), random_)
    if kind == 2:
        return replaced(raw, rb'"[^"]*"', b'"' + random_.choice(RAW_TEXT) + b'"', random_)
    if kind == 3:  # a key or a member twice
        found = re.findall(rb'"[^"]*"\s*:\s*(?:\{[^{}]*\}|\[[^\]]*\]|"[^"]*")', raw)
        return raw[:1] + random_.choice(found) + b"," + raw[1:] if found else raw
    if kind == 4:
        return replaced(raw, rb"\d+", b"[" * random_.choice([10, 1000, 100_000]), random_)
    if kind == 5:
        return raw + random_.choice([b"\n", b"\t", b"\x00", b"}", b"{}", b" {}", b"\x0c", b"\xc2\xa0"])
    return random_.choice([b"\xef\xbb\xbf", b" ", b"\n", b"[", b"/**/"]) + raw


def replaced(raw: bytes, pattern: bytes, by: bytes, random_: random.Random) -> bytes:
    """One match of `pattern` in `raw` replaced."""
    found = list(re.finditer(pattern, raw))
    if not found:
        return raw
    match = random_.choice(found)
    return raw[: match.start()] + by + raw[match.end() :]


def mutated_bytes(raw: bytes, random_: random.Random) -> bytes:
    """Bits flipped, bytes inserted, removed, repeated, cut off."""
    content = bytearray(raw)
    at = random_.randrange(len(content) + 1)
    kind = random_.randrange(5)
    if kind == 0 and at < len(content):
        content[at] ^= 1 << random_.randrange(8)
    elif kind == 1:
        content[at:at] = random_.randbytes(random_.choice([1, 2, 8]))
    elif kind == 2:
        del content[at : at + random_.choice([1, 2, 8, 1000])]
    elif kind == 3:
        content[at:at] = content[at : at + random_.choice([1, 8, 64])]
    else:
        del content[at:]
    return bytes(content)


def read(content: bytes) -> Header:
    """As the grader reads a file."""
    length = header_length(content[:LENGTH_BYTES], file="m.safetensors", file_bytes=len(content), limit=LIMIT)
    raw = content[LENGTH_BYTES : LENGTH_BYTES + length]
    return parse_header(raw, file="m.safetensors", data_bytes=len(content) - LENGTH_BYTES - length)


def library_reads(content: bytes) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The tensors as the library reads them; it raises where it does not."""
    return {n: (t["dtype"], tuple(t["shape"]), bytes(t["data"])) for n, t in safetensors.deserialize(content)}


def judge(content: bytes, tally: Tally) -> None:
    """Counts one input, and says what does not hold for it."""
    tally.inputs += 1
    is_measured = tally.inputs % MEASURE_EVERY == 0
    if is_measured:
        tracemalloc.start()
    began = time.thread_time()
    try:
        header = read(content)
    except Inadmissible as error:
        header = None
        tally.refused[reason_of(error.what)] += 1
    except BaseException as error:  # noqa: BLE001 -- this is what is looked for
        header = None
        tally.findings.append(f"{type(error).__name__}: {error}")
    took = time.thread_time() - began
    if is_measured:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if len(content) >= LARGE_BYTES:
            tally.most_memory = max(tally.most_memory, peak / len(content))
        if peak > MAX_BYTES + MAX_BYTES_PER_BYTE * len(content):
            tally.findings.append(f"{peak} bytes of memory for {len(content)} bytes")
    tally.slowest_s = max(tally.slowest_s, took)
    if took > MAX_SECONDS:
        tally.findings.append(f"{took:.1f} s for {len(content)} bytes")
    if header is not None:
        tally.read += 1
        compare(content, header, tally)


def compare(content: bytes, header: Header, tally: Tally) -> None:
    """What was read against the library, and against itself written anew."""
    data = content[header.data_start :]
    own = {p.name: (p.info.dtype, p.info.shape, data[p.begin : p.end]) for p in header.placements}
    again = encode_header(header.placements) + data
    if read(again).placements != header.placements:
        tally.findings.append("written anew it is read as something else")
    if safetensors is None:
        return
    tally.compared += 1
    for name, file in (("as it is", content), ("written anew", again)):
        try:
            other = library_reads(file)
        except Exception as error:  # noqa: BLE001 -- any refusal of the library's is one
            tally.findings.append(f"{name}: the library refuses it: {error}")
            continue
        if other != own:
            tally.findings.append(f"{name}: the library reads other tensors")


def reason_of(what: str) -> str:
    """A refusal without what is particular to one input."""
    return re.sub(
        r"\d+",
        "N",
        re.sub(r"(gives|names a tensor|bytes of|describes) .*? (the|a|data_offsets|N|by)", r"\1 X \2", what),
    )[:60]


def fuzz(seconds: float, seed: int, on_finding: Callable[[str, bytes], None] | None = None) -> Tally:
    """Runs for that long; the same seed makes the same inputs."""
    random_, tally, began = random.Random(seed), Tally(), time.monotonic()
    pool = seeds(random_)
    while (elapsed := time.monotonic() - began) < seconds:
        content, known = mutated(random_.choice(pool), random_), len(tally.findings)
        judge(content, tally)
        for finding in tally.findings[known:]:
            if on_finding is not None:
                on_finding(finding, content)
    tally.seconds = elapsed
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    shown: Counter[str] = Counter()

    def show(finding: str, content: bytes) -> None:
        kind = re.sub(r"\d+", "N", finding)[:80]
        shown[kind] += 1
        if shown[kind] <= 3:
            print(f"FINDING {finding}\n  input: {content[:600]!r}", flush=True)

    tally = fuzz(options.seconds, options.seed, show)
    library = f"safetensors {safetensors.__version__}" if safetensors else "nothing: safetensors is not installed"
    print(
        f"seed {options.seed}: {tally.inputs} inputs in {tally.seconds:.0f} s ({tally.inputs / tally.seconds:.0f}/s), "
        f"{tally.read} read, {tally.compared} compared with {library}\n"
        f"slowest {1000 * tally.slowest_s:.1f} ms, most memory {tally.most_memory:.0f} bytes per byte of large inputs, "
        f"{len(tally.refused)} kinds of refusal, {len(tally.findings)} findings"
    )
    for kind, times in tally.refused.most_common(12):
        print(f"  {times:8} {kind}")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
