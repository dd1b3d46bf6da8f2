"""The agent's output in a file: whole, raw, capped."""

import time

import pytest

from harness.sandbox import watch
from harness.sandbox.log_stream import LogStream

pytestmark = pytest.mark.docker


def follow(client, run, path, cap_mb=2):
    stream = LogStream(run.container, path, cap_mb)
    stream.start()
    watch.wait_exit(client, run.container, 60)
    assert stream.stop(20)
    return stream


def test_both_streams_arrive_whole_and_raw(client, launch, tmp_path):
    raw = r"printf 'not text: \xff\xfe\n'; echo oops >&2"
    run = launch(raw + r"; head -c 100000 /dev/zero | tr '\0' x; echo; echo last")
    follow(client, run, tmp_path / "log")
    text = (tmp_path / "log").read_bytes()
    assert b"\xff\xfe" in text
    assert b"oops\n" in text
    # A long line comes from Docker in pieces of 16 kB.
    assert b"x" * 100_000 + b"\nlast\n" in text


def test_output_can_be_read_while_the_agent_runs(client, launch, tmp_path):
    run = launch("echo early; sleep 30")
    stream = LogStream(run.container, tmp_path / "log", 1)
    stream.start()
    deadline = time.monotonic() + 15
    while (tmp_path / "log").read_bytes() != b"early\n" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (tmp_path / "log").read_bytes() == b"early\n"
    assert not stream.stop(0.2)
    client.api.kill(run.container)


def test_a_flood_is_cut_at_the_cap_with_a_mark(client, launch, tmp_path):
    run = launch("yes 'a flood of text' | head -c 20000000")
    stream = follow(client, run, tmp_path / "log", cap_mb=1)
    text = (tmp_path / "log").read_bytes()
    assert stream.is_capped
    assert 1_000_000 < len(text) < 1_000_200
    assert text.endswith(b"[harness] the log reached its limit of 1 MB; the rest is not kept\n")


def test_a_log_of_an_ended_container_is_read_from_its_beginning(client, launch, tmp_path):
    run = launch("seq 1 50000")
    watch.wait_exit(client, run.container, 30)
    stream = LogStream(run.container, tmp_path / "log", 5)
    stream.start()
    assert stream.stop(20)
    assert (tmp_path / "log").read_text() == "".join(f"{n}\n" for n in range(1, 50001))


def test_a_flood_that_is_rotated_away_before_it_is_read_is_told(client, launch, tmp_path, monkeypatch):
    run = launch("yes 'a flood of text' | head -c 30000000")
    stream = LogStream(run.container, tmp_path / "log", 50)
    whole = LogStream._copy

    def late(self, pieces, file):
        monkeypatch.setattr(LogStream, "_copy", whole)
        watch.wait_exit(client, run.container, 60)
        whole(self, pieces, file)

    monkeypatch.setattr(LogStream, "_copy", late)
    stream.start()
    watch.wait_exit(client, run.container, 60)
    assert stream.stop(20)
    assert stream.is_capped
    text = (tmp_path / "log").read_bytes()
    assert len(text) < 20_000_000
    assert text.endswith(b"[harness] the output came faster than it could be read; the rest is not kept\n")


def test_a_live_stream_that_ends_too_early_is_completed(client, launch, tmp_path, monkeypatch):
    run = launch("seq 1 3000; sleep 2; seq 3001 4000")
    stream = LogStream(run.container, tmp_path / "log", 1)
    whole = LogStream._copy

    def first_thousand(self, pieces, file):
        """As the engine does after a rotation: the stream ends as if that was all."""
        monkeypatch.setattr(LogStream, "_copy", whole)
        watch.wait_exit(client, run.container, 60)
        whole(self, (piece for piece, _ in zip(pieces, range(1000), strict=False)), file)

    monkeypatch.setattr(LogStream, "_copy", first_thousand)
    stream.start()
    watch.wait_exit(client, run.container, 60)
    assert stream.stop(20)
    assert (tmp_path / "log").read_text() == "".join(f"{n}\n" for n in range(1, 4001))
    assert not stream.is_capped
