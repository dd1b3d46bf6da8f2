"""An agent writes its own log: whatever it writes costs bounded memory and never an exception."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trajectory_files import SAMPLES, check, gateway_folder

from harness.trajectory import building, lines
from harness.trajectory.exchanges import WIRES, read_exchanges
from harness.trajectory.native import READERS, read_native

ROOT = Path(__file__).resolve().parents[3]


def read(name: str, log: bytes) -> None:
    """Reads a log, and holds what comes of it to the rules."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(log)
        found = read_native([path, path], name, name)
        if found is not None:
            check(found)


def words_of(value: Any) -> set[str]:
    """All names and short texts in a JSON value: what a log is made of."""
    if isinstance(value, dict):
        return set(value) | {word for item in value.values() for word in words_of(item)}
    if isinstance(value, list):
        return {word for item in value for word in words_of(item)}
    return {value} if isinstance(value, str) and len(value) < 40 else set()


def events(name: str) -> list[Any]:
    found = sorted(SAMPLES.glob(f"{name}.json*"))
    text = found[0].read_text() if found else ""
    return [json.loads(text)] if found and found[0].suffix == ".json" else [json.loads(x) for x in text.splitlines()]


def hostile_values(words: list[str]) -> st.SearchStrategy[Any]:
    """JSON with the words of real logs in the wrong places."""
    strange = st.sampled_from(
        ["", "\ud800", "\x00\x1b[31m", "x" * 300, "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"]
    )
    numbers = st.integers(-(2**70), 2**70) | st.floats() | st.booleans() | st.none()
    leaves = st.sampled_from(words) | strange | numbers | st.text(max_size=5)
    return st.recursive(
        leaves,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(words), below, max_size=6),
        max_leaves=20,
    )


def broken(value: Any, place: list[int], into: Any) -> Any:
    """`value` with something else at one place in it."""
    if isinstance(value, dict) and value and place:
        key = sorted(value)[place[0] % len(value)]
        return {**value, key: broken(value[key], place[1:], into)}
    if isinstance(value, list) and value and place:
        index = place[0] % len(value)
        return [*value[:index], broken(value[index], place[1:], into), *value[index + 1 :]]
    return into


@pytest.mark.parametrize("name", READERS)
def test_real_events_with_anything_anywhere_in_them(name: str) -> None:
    known = events(name)
    words = sorted(words_of(known))
    places = st.lists(st.integers(0, 20), max_size=6)

    @given(st.lists(st.tuples(st.sampled_from(known), places, hostile_values(words)), min_size=1, max_size=6))
    def holds(changed: list[tuple[Any, list[int], Any]]) -> None:
        log = [json.dumps(broken(event, place, into)) for event, place, into in changed]
        read(name, "\n".join(log).encode("utf-8", "surrogatepass"))

    holds()


@pytest.mark.parametrize("name", READERS)
def test_any_bytes(name: str) -> None:
    @given(st.binary(max_size=200))
    @example(b'{"type":"\xff\xfe","kind":"\x00"}\n\x00\n')
    @example(b"[" * 100_000 + b"\n" + b'{"a":' * 100_000)
    @example(b'{"type":"assistant","message":{"id":1e999,"usage":{"input_tokens":1e999}}}')
    @example(b'{"type":"result","total_cost_usd":-1e999,"usage":{"input_tokens":-5}}\n{"kind":NaN}')
    @example(b'{"type":"x","v":' + b'{"a":' * 900 + b"1" + b"}" * 901)
    @example(b'{"type":"x","v":' + b"9" * 5000 + b"}")
    def holds(log: bytes) -> None:
        read(name, log)

    holds()


@pytest.mark.parametrize("end", WIRES)
def test_exchanges_with_anything_in_them(end: str) -> None:
    words: set[str] = set()
    for sample in SAMPLES.glob("gateway-*.json"):
        for exchange in json.loads(sample.read_text())["exchanges"][:2]:
            words |= words_of(json.loads(exchange["request"]["body"]))
            for line in exchange["answer"]["body"].splitlines():
                if line.startswith("data: {"):
                    words |= words_of(json.loads(line[6:]))
    hostile = hostile_values(sorted(words))
    objects = st.dictionaries(st.sampled_from(sorted(words)), hostile, max_size=6)

    @settings(max_examples=30)
    @given(objects, st.lists(objects, max_size=4), st.booleans())
    def holds(request: dict[str, Any], answers: list[dict[str, Any]], is_stream: bool) -> None:
        body = "\n\n".join(f"data: {json.dumps(one)}" for one in answers) if is_stream else json.dumps(answers[:1])
        path = f"/v1/models/m{end}" if end.startswith(":") else f"/v1{end}"
        call = {"number": 1, "at": "2026-01-01T00:00:00Z", "detail": {"exchange": "000001.json.gz"}}
        answer = {"status": 200, "ended": "complete", "body": body}
        exchange = {"number": 1, "request": {"path": path, "body": json.dumps(request)}, "answer": answer}
        with TemporaryDirectory() as folder:
            found = read_exchanges(gateway_folder(Path(folder) / "g", [call], [exchange]), "a")
        if found is not None:
            check(found)

    holds()


def test_broken_lines_are_counted_and_the_others_are_read(native) -> None:
    log = b'{"type": "user", "message": {"content": "one"}}\nwarning: no JSON\n{"half": \n[1]\n\n'
    found = native("claude", log + b'{"type": "user", "message": {"content": "two"}}')
    assert [step.message for step in found.steps] == ["one", "two"]
    assert found.notes == "3 of 6 lines could not be read"


def test_a_line_longer_than_the_bound_is_passed_over(native, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    monkeypatch.setattr(lines, "CHUNK", 7)
    long = json.dumps({"type": "user", "message": {"content": "x" * 500}}).encode()
    short = b'{"type": "user", "message": {"content": "hi"}}'
    found = native("claude", long + b"\n" + short + b"\n" + long)
    assert [step.message for step in found.steps] == ["hi"]
    assert found.notes == "2 of 3 lines could not be read"


def test_more_than_is_kept_is_told(native, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "".join(json.dumps({"type": "user", "message": {"content": f"{n}"}}) + "\n" for n in range(20))
    monkeypatch.setattr(building, "MAX_STEPS", 5)
    found = native("claude", log)
    assert (len(found.steps), found.notes) == (5, "15 things were left out: the log is larger than what is shown")
    monkeypatch.setattr(lines, "MAX_LINES", 3)
    assert "more lines than are read" in native("claude", log).notes


def test_text_is_kept_up_to_a_bound(native, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_CHARACTERS", 1_000)
    log = "".join(json.dumps({"type": "user", "message": {"content": "x" * 400}}) + "\n" for _ in range(5))
    assert sum(len(step.message) for step in native("claude", log).steps) == 800


def test_unknown_events_are_kept_as_they_are(native) -> None:
    (step,) = native("claude", '{"type": "system", "subtype": "new_thing", "a": [1]}').steps
    assert (step.source, step.message) == ("system", "")
    assert step.extra == {
        "event": "system/new_thing",
        "value": {"type": "system", "subtype": "new_thing", "a": [1]},
    }


def test_neither_links_nor_fifos_are_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('{"type": "user", "message": {"content": "hi"}}')
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    assert read_native([tmp_path / "link", tmp_path / "pipe", tmp_path / "none"], "claude", "a") is None


HOSTILE_LOGS = {
    "a line without an end": '\'{"type":"assistant","x":"\' + \'A\' * (48 << 20)',
    "many values": "('{\"type\":\"x\",\"v\":[' + '[],' * 300_000 + '[]]}\\n') * 3",
    "many texts": "('{\"type\":\"x\",\"v\":[' + ','.join('\"%06d\"' % n for n in range(300_000)) + ']}\\n') * 2",
    "deep": "('{\"type\":\"x\",\"v\":' + '[' * 2_000_000 + '\\n') * 4",
}


@pytest.mark.parametrize("what", HOSTILE_LOGS)
def test_memory_is_bounded(what: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    # Written by another process: the reader's memory is what is measured.
    write = f"import sys; open(sys.argv[1], 'w').write({HOSTILE_LOGS[what]})"
    subprocess.run([sys.executable, "-c", write, str(path)], check=True)
    code = (
        "import resource, sys; from pathlib import Path; from harness.trajectory.native import read_native\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "read_native([Path(sys.argv[1])], 'claude', 'a')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 150 * 1024
