"""What is kept on disk: calls, runs, events and exchanges, over restarts and kills."""

from __future__ import annotations

import gzip
import hashlib
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.domain.base import now_utc
from harness.domain.llm import OVER_BUDGET, LlmBudget, LlmCall, LlmRun
from harness.errors import Conflict, InfrastructureError, NotFound
from harness.gateway.capture import Exchange, Message, Recorder
from harness.gateway.journal import Journal, rows_of
from harness.gateway.redaction import Redactor
from harness.gateway.registry import Registry


def row(number: int, usd: float = 0.5, **fields: object) -> LlmCall:
    return LlmCall(
        number=number, run_id="r", at=now_utc(), provider="openai", model="m", http_status=200,
        input_tokens=10, cached_tokens=4, cache_write_tokens=3, output_tokens=2, cost_usd=usd, detail=fields,
    )  # fmt: skip


def spec(token: str = "t", **fields: object) -> LlmRun:
    digest = hashlib.sha256(token.encode()).hexdigest()
    values = {"run_id": "r", "token_sha256": digest, "subnets": ("10.1.2.0/28",), **fields}
    return LlmRun.model_validate(values)


def registry(state: Path) -> Registry:
    found = Registry(state, 10)
    found.take_up()
    return found


def test_totals_are_recomputed_from_the_calls(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.take_up() is None
    for _ in range(3):
        number = journal.number()
        journal.begun(row(number, 9.0))
        journal.ended(row(number))
    journal.ended(row(journal.number(), 0.0, refused="why"))
    used = Journal(tmp_path).take_up()
    assert used is not None
    assert (used.requests, used.refused, used.input_tokens, used.cache_write_tokens) == (3, 1, 40, 12)
    assert used.cost_usd == pytest.approx(1.5)


def test_what_a_kill_left_open_is_settled_as_it_was_held(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begun(row(journal.number(), 9.0))
    later = Journal(tmp_path)
    used = later.take_up()
    assert used is not None
    assert (used.requests, used.cost_usd) == (1, 9.0)
    assert later.number() == 2
    again = Journal(tmp_path).take_up()
    assert again == used
    assert rows_of(tmp_path)[0].detail["ended"] == "gateway_died"
    assert later.has_room(3)
    assert not later.has_room(2)


def test_a_file_cut_at_any_byte_is_taken_up(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.ended(row(1))
    whole = (tmp_path / "calls.jsonl").read_bytes()
    journal.ended(row(2))
    both = (tmp_path / "calls.jsonl").read_bytes()
    for cut in range(len(whole), len(both)):
        (tmp_path / "calls.jsonl").write_bytes(both[:cut])
        later = Journal(tmp_path)
        used = later.take_up()
        assert used is not None
        later.ended(row(3))
        numbers = [found.number for found in rows_of(tmp_path)]
        assert numbers in ([1, 3], [1, 2, 3])


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """As on a disk that is full: of what goes beyond a part is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_line_for_which_there_is_no_room_takes_no_other_with_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.ended(row(1))
    size = (tmp_path / "calls.jsonl").stat().st_size
    with no_file_above(size + 20), pytest.raises(OSError, match="No space"):
        journal.ended(row(2))
    journal.ended(row(3))
    assert [found.number for found in rows_of(tmp_path)] == [1, 3]


def test_a_line_that_is_no_call_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl").write_text('{"ended": {"number": -1}}\n')
    with pytest.raises(InfrastructureError, match="line 1"):
        Journal(tmp_path).take_up()


def test_calls_are_read_from_where_one_was(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in (2, 1, 3):
        journal.ended(row(number))
    assert [found.number for found in rows_of(tmp_path, 1)] == [1, 3]


def test_a_token_works_from_its_network_and_while_its_run_is_open(tmp_path: Path) -> None:
    runs = registry(tmp_path)
    runs.open(spec())
    assert runs.find("t", "10.1.2.3") is not None
    for address in ("10.1.3.3", "127.0.0.1", "", "::1", "x"):
        assert runs.find("t", address) is None
    assert runs.find("u", "10.1.2.3") is None
    assert runs.find("\udc80", "10.1.2.3") is None
    runs.close("r")
    assert runs.find("t", "10.1.2.3") is None
    assert not runs.close("r").is_open


def test_runs_and_events_survive_a_restart(tmp_path: Path) -> None:
    first = registry(tmp_path)
    first.open(spec(budget=LlmBudget(usd=1.0)))
    first.open(spec("u", run_id="closed"))
    first.close("closed")
    first.tell("r", OVER_BUDGET)
    first.tell("r", OVER_BUDGET)
    later = registry(tmp_path)
    assert later.find("t", "10.1.2.3") is not None
    assert later.find("u", "10.1.2.3") is None
    assert not later.usage("closed").is_open
    assert [event.kind for event in later.events(0)] == [OVER_BUDGET]
    assert later.events(1) == []


def test_a_run_that_is_taken_up_has_a_new_token_and_its_old_figures(tmp_path: Path) -> None:
    runs = registry(tmp_path)
    runs.open(spec(budget=LlmBudget(requests=3)))
    run = runs.find("t", "10.1.2.3")
    assert run is not None
    run.journal.ended(row(run.journal.number()))
    for known in (runs, registry(tmp_path)):
        known.close("r")
        used = known.open(spec("u", subnets=("10.9.9.0/28",), budget=LlmBudget(requests=3)))
        assert (used.is_open, used.requests, used.cost_usd) == (True, 1, 0.5)
        assert known.find("t", "10.1.2.3") is None
        assert known.find("u", "10.1.2.3") is None
        assert known.find("u", "10.9.9.3") is not None
    with pytest.raises(Conflict, match="another budget"):
        known.open(spec("u", subnets=("10.9.9.0/28",)))


def test_a_new_token_of_an_open_run_ends_the_old_one_and_no_call(tmp_path: Path) -> None:
    runs = registry(tmp_path)
    runs.open(spec())
    before = runs.find("t", "10.1.2.3")
    runs.open(spec("u"))
    after = runs.find("u", "10.1.2.3")
    assert before is not None
    assert after is not None
    assert runs.find("t", "10.1.2.3") is None
    assert after.ledger is before.ledger
    assert after.journal is before.journal


def test_a_run_is_opened_once(tmp_path: Path) -> None:
    runs = registry(tmp_path)
    assert runs.open(spec()) == runs.open(spec())
    with pytest.raises(Conflict):
        runs.open(spec(models=("m",)))
    with pytest.raises(Conflict):
        runs.open(spec(run_id="other"))
    with pytest.raises(NotFound):
        runs.close("..")


def test_a_run_that_was_overrun_by_a_kill_is_told(tmp_path: Path) -> None:
    registry(tmp_path).open(spec(budget=LlmBudget(usd=1.0)))
    Journal(tmp_path / "runs" / "r").begun(row(1, 2.0))
    assert [event.kind for event in registry(tmp_path).events(0)] == [OVER_BUDGET]


WRONG: list[dict[str, object]] = [
    {"run_id": "../x"},
    {"run_id": ""},
    {"subnets": ()},
    {"subnets": ("x",)},
    {"token_sha256": "t"},
    {"budget": {"usd": -1}},
    {"budget": {"usd": float("nan")}},
    {"more": 1},
]


@pytest.mark.parametrize("field", WRONG)
def test_a_run_that_cannot_be_meant_is_refused(field: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        spec(**field)


KEY = "sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa"


@pytest.mark.parametrize(
    "secret", ["the-own-key", "given", KEY, "AIza" + "b" * 35, "hf_" + "c" * 30, "ghp_" + "d" * 36]
)
def test_secrets_are_taken_out(secret: str) -> None:
    redactor = Redactor(["the-own-key", ""])
    assert redactor(f'{{"a": "{secret}"}}'.encode(), "given", "") == b'{"a": "[redacted]"}'


def test_ordinary_text_stays() -> None:
    text = b"ask-me, sk-learn, Bearer of news, risk-aversion-is-a-word"
    assert Redactor([])(text) == text


def kept(tmp_path: Path, recorder: Recorder, number: int, body: bytes) -> str | None:
    exchange = Exchange(number, Message({"path": "/v1/x"}, body), Message({"status": 200}, b"\xff answer"), "tok")
    return recorder.keep(tmp_path, exchange)


def test_an_exchange_is_kept_without_secrets(tmp_path: Path) -> None:
    recorder = Recorder(Redactor([KEY]), 2**20)
    name = kept(tmp_path, recorder, 7, json.dumps({"a": f"tok {KEY}"}).encode())
    recorder.close()
    assert name == "000007.json.gz"
    value = json.loads(gzip.decompress((tmp_path / "exchanges" / name).read_bytes()))
    assert value["request"] == {"path": "/v1/x", "is_cut": False, "body": '{"a": "[redacted] [redacted]"}'}
    assert value["answer"]["body"] == "\ufffd answer"


def test_exchanges_have_a_cap_that_outlives_a_restart(tmp_path: Path) -> None:
    recorder = Recorder(Redactor([]), 100)
    assert kept(tmp_path, recorder, 1, b"x" * 100)
    recorder.close()
    assert kept(tmp_path, Recorder(Redactor([]), 100), 2, b"x") is None
