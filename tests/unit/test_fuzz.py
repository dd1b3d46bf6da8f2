"""A short run of the fuzzer; `make fuzz` runs longer. What it finds is a failure, with the input that shows it."""

from __future__ import annotations

import pytest
from fuzz import safetensors_header as fuzzer

from harness.checkpoint.header import Header
from harness.errors import Inadmissible


def test_no_input_of_two_seconds_breaks_the_header_check():
    tally = fuzzer.fuzz(seconds=2, seed=20_261_130)
    assert tally.findings == []
    assert tally.inputs > 50
    assert tally.read > 5
    assert len(tally.refused) > 10


def test_it_notices_what_it_looks_for(monkeypatch: pytest.MonkeyPatch):
    """A fuzzer that never finds anything proves nothing: here the check is broken on purpose."""

    def crashes(content: bytes) -> Header:
        raise KeyError("x")

    tally = fuzzer.Tally()
    monkeypatch.setattr(fuzzer, "read", crashes)
    fuzzer.judge(b"x" * 8, tally)
    assert tally.findings == ["KeyError: 'x'"]


def test_it_compares_with_the_library(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("safetensors", reason="safetensors is not installed here")
    document = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    right = len(document).to_bytes(8, "little") + document + b"abcd"
    tally = fuzzer.Tally()
    fuzzer.judge(right, tally)
    assert (tally.read, tally.compared, tally.findings) == (1, 1, [])
    monkeypatch.setattr(fuzzer, "library_reads", lambda content: {})
    fuzzer.judge(right, tally)
    assert "other tensors" in tally.findings[0]


def test_the_same_seed_makes_the_same_inputs():
    seen: list[list[bytes]] = [[], []]
    for inputs in seen:
        random_ = fuzzer.random.Random(5)
        pool = fuzzer.seeds(random_)
        inputs.extend(fuzzer.mutated(random_.choice(pool), random_) for _ in range(50))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["-0", "half a surrogate", "overflow"])
def test_what_it_found_stays_mended(name: str):
    header = {
        "-0": b'{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}',
        "half a surrogate": b'{"__metadata__":{"a":"\\ud800"}}',
        "overflow": b'{"a":{"dtype":"F32","shape":[9223372036854775807,2,0],"data_offsets":[0,0]}}',
    }[name]
    with pytest.raises(Inadmissible):
        fuzzer.read(len(header).to_bytes(8, "little") + header)
