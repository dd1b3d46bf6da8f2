"""What the run loop makes of its gateway: calls once each in the record, budgets and providers that end an agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from harness.domain.llm import KEY_REFUSED, OVER_BUDGET, QUOTA_GONE, Answering, LlmBudget, LlmCall, LlmUsage
from harness.domain.specs import NetworkPolicy
from harness.errors import GraderUnavailable, ServiceUnavailable
from harness.runner import llm_watch as module
from harness.runner.grader_client import GraderClient
from harness.runner.llm_watch import LlmWatch, Tally, spent_words
from harness.runner.objects import RunObjects
from harness.sandbox.watch import LlmEvidence
from tests.run_fakes import DRIVER, RUN_ID, FakeGrader, FakeObjects, llm_call, make_plan


class Scene:
    """A watch over a fake gateway, with what it says to a person."""

    def __init__(self, folder: Path, **plan: Any) -> None:
        self.objects = FakeObjects(folder)
        self.gateway = self.objects.gateway
        self.grader = FakeGrader(self.objects)
        self.said: list[str] = []
        self.plan = make_plan(folder, **(plan or {"llm": DRIVER}))

    def watch(self) -> LlmWatch:
        found = LlmWatch(
            self.plan, cast(GraderClient, self.grader), cast(RunObjects, self.objects), say=self.said.append
        )
        found.start()
        return found

    def numbers(self) -> list[int]:
        return [call.number for call in self.grader.llm_calls]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    for name in ("POLL_S", "LAST_ACT_S", "PATIENCE_S", "SETTLE_S", "SETTLE_POLL_S"):
        monkeypatch.setattr(module, name, 0.0)
    return Scene(tmp_path / "run")


def test_calls_are_sent_as_they_come(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    watch = scene.watch()
    scene.gateway.rows = [llm_call(number) for number in (3, 1, 2)]
    watch.look()
    watch.send()
    assert scene.numbers() == [3, 1, 2]
    scene.gateway.rows.append(llm_call(4))
    watch.look()
    watch.send()
    assert scene.numbers() == [3, 1, 2, 4]


def test_what_a_grader_that_is_away_does_not_take_is_sent_later(scene: Scene) -> None:
    watch = scene.watch()
    scene.gateway.rows = [llm_call(1)]
    watch.look()
    scene.grader.is_away = True
    with pytest.raises(GraderUnavailable):
        watch.send()
    scene.grader.is_away = False
    watch.send()
    assert scene.numbers() == [1]


def test_a_new_harness_reads_all_calls_again(scene: Scene) -> None:
    """The grader keeps each once; what the end is judged by must be known again."""
    scene.gateway.rows = [llm_call(1), llm_call(2, 500, given_up="the provider answered 500")]
    for _ in range(2):
        watch = scene.watch()
        watch.look()
        watch.send()
        assert watch.evidence().given_up == "the provider answered 500"
    assert scene.numbers() == [1, 2, 1, 2]


def test_a_spent_budget_stops_the_agent_after_a_moment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAST_ACT_S", 1000.0)
    watch = scene.watch()
    scene.gateway.tell(OVER_BUDGET)
    scene.gateway.used = LlmUsage(run_id=RUN_ID, is_open=True, requests=9)
    watch.look()
    assert not watch.must_stop()
    monkeypatch.setattr(module, "LAST_ACT_S", 0.0)
    assert watch.must_stop()
    assert watch.evidence().spent == "the budget of its driver LLM was spent: 9 of 9 requests"
    assert scene.said == ["the budget of the driver LLM is spent"]


@pytest.mark.parametrize(
    ("detail", "is_told"), [({"is_listed": False}, True), ({"is_listed": True}, False), ({"refused": "budget"}, False)]
)
def test_a_budget_that_counts_a_guessed_price_is_told_once(scene: Scene, detail: dict[str, Any], is_told: bool) -> None:
    watch = scene.watch()
    scene.gateway.rows = [llm_call(1, **detail), llm_call(2, **detail)]
    watch.look()
    assert [("not listed" in said, "HARNESS_LLM_PRICES" in said) for said in scene.said] == [(True, True)] * is_told


def test_a_provider_that_answers_no_more_and_then_again_is_told(scene: Scene) -> None:
    watch = scene.watch()
    down = "the provider cannot be reached"
    scene.gateway.rows = [llm_call(1), *[llm_call(n, 502, given_up=down) for n in (2, 3)]]
    watch.look()
    scene.gateway.rows += [llm_call(4, 402, refused="budget"), llm_call(5)]
    watch.look()
    assert scene.said == [f"an LLM call came to nothing: {down}", "the LLM answers again"]


@pytest.mark.parametrize(("kind", "words"), [(QUOTA_GONE, "nothing left to spend"), (KEY_REFUSED, "refuses the key")])
def test_a_provider_at_its_end_stops_the_agent_at_once(scene: Scene, kind: str, words: str, monkeypatch) -> None:
    monkeypatch.setattr(module, "LAST_ACT_S", 1000.0)
    watch = scene.watch()
    scene.gateway.tell(kind)
    watch.look()
    assert watch.must_stop()
    assert words in watch.evidence().stopped
    assert "(openai)" in watch.evidence().stopped


ANSWERS, SILENT = Answering(is_known=True, is_answered=True), Answering(is_known=True)


@pytest.mark.parametrize(
    ("answering", "expected"),
    [
        (ANSWERS, LlmEvidence(own="a 500")),
        (SILENT, LlmEvidence(given_up="a 500")),
        (Answering(is_known=False), LlmEvidence(given_up="a 500")),
    ],
)
def test_a_last_call_that_a_provider_failed_at_while_it_answers_others_is_the_agents(
    scene: Scene, answering: Answering, expected: LlmEvidence
) -> None:
    scene.gateway.rows = [llm_call(1), llm_call(2, 500, given_up="a 500")]
    scene.gateway.answering = answering
    assert scene.watch().evidence() == expected


@pytest.mark.parametrize("kind", [QUOTA_GONE, KEY_REFUSED])
def test_a_refusal_of_all_calls_counts_where_others_are_not_answered(scene: Scene, kind: str) -> None:
    """Some providers refuse a request for more than the account can pay in the words for an empty one."""
    watch = scene.watch()
    scene.gateway.tell(kind)
    scene.gateway.answering = ANSWERS
    watch.look()
    assert not watch.must_stop()
    assert watch.evidence() == LlmEvidence()
    # It is told once only: at the end it is asked for once more.
    scene.gateway.answering = SILENT
    assert "(openai)" in watch.evidence().stopped


def test_an_event_at_the_very_end_is_seen(scene: Scene) -> None:
    """A command line that ends itself upon a refusal does so before the next look."""
    watch = scene.watch()
    watch.look()
    scene.gateway.tell(OVER_BUDGET)
    scene.gateway.used = LlmUsage(run_id=RUN_ID, is_open=True, cost_usd=1.25)
    assert watch.evidence().spent.endswith("1.2500 of 1 USD")


def test_a_gateway_that_died_is_started_again(scene: Scene) -> None:
    watch = scene.watch()
    scene.gateway.rows = [llm_call(1)]
    scene.gateway.is_away = True
    watch.look()
    watch.send()
    assert scene.numbers() == [1]
    assert "starting the LLM gateway again" in scene.said[0]


def test_a_gateway_that_is_away_for_a_moment_is_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 1000.0)
    watch = scene.watch()
    scene.gateway.is_away = True
    watch.look()
    assert scene.objects.calls.count("start gateway") == 1
    assert scene.said == []


def test_a_gateway_that_does_not_come_back_is_told(scene: Scene) -> None:
    watch = scene.watch()
    scene.gateway.is_away = True
    scene.objects.raises["start gateway"] = ServiceUnavailable("it ended")
    with pytest.raises(ServiceUnavailable, match="it ended"):
        watch.look()


def test_the_last_calls_are_kept_when_the_run_is_over(scene: Scene) -> None:
    watch = scene.watch()
    scene.gateway.rows = [llm_call(1)]
    watch.finish()
    watch.finish()
    assert scene.gateway.is_closed
    assert scene.numbers() == [1]


def test_a_gateway_that_is_gone_at_the_end_does_not_keep_a_run_open(scene: Scene) -> None:
    watch = scene.watch()
    scene.gateway.is_away = True
    watch.finish()
    assert "not in the record" in scene.said[0]


def test_a_run_that_never_had_its_gateway_is_not_missed(scene: Scene) -> None:
    watch = LlmWatch(
        scene.plan, cast(GraderClient, scene.grader), cast(RunObjects, scene.objects), say=scene.said.append
    )
    scene.gateway.is_away = True
    watch.finish()
    assert scene.said == []


def test_a_run_without_a_gateway_has_nothing_to_tell(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", seed=1)
    scene.gateway.tell(OVER_BUDGET)
    watch = LlmWatch(
        scene.plan, cast(GraderClient, scene.grader), cast(RunObjects, scene.objects), say=scene.said.append
    )
    watch.look()
    assert not watch.must_stop()
    assert watch.evidence() == LlmEvidence()


def test_a_proxy_alone_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    scene = Scene(tmp_path / "run", network=NetworkPolicy.ALLOWLIST, allowed_hosts=("pypi.org",))
    watch = scene.watch()
    scene.gateway.is_away = True
    watch.look()
    assert scene.objects.calls.count("start gateway") == 2
    assert watch.evidence() == LlmEvidence()


GAVE_UP = {"ended": "provider_error", "given_up": "the provider answered 503"}


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], ""),
        ([llm_call(1)], ""),
        ([llm_call(1, 503, **GAVE_UP)], "the provider answered 503"),
        ([llm_call(1, 503, **GAVE_UP), llm_call(2)], ""),
        # A request that was wrong is the agent's own.
        ([llm_call(1, 503, **GAVE_UP), llm_call(2, 400, ended="provider_error")], ""),
        # What says nothing of the provider does not count.
        ([llm_call(1, 503, **GAVE_UP), llm_call(2, 402, refused="spent")], "the provider answered 503"),
        ([llm_call(1, 503, **GAVE_UP), llm_call(2, is_billed=False)], "the provider answered 503"),
        ([llm_call(1, 503, **GAVE_UP), llm_call(2, 0, ended="agent_left")], "the provider answered 503"),
        ([llm_call(1, 503, **GAVE_UP), llm_call(2, 0, ended="closed")], "the provider answered 503"),
        ([llm_call(1), llm_call(2, 0, ended="agent_left", given_up="no answer in time")], "no answer in time"),
        ([llm_call(1, 200, ended="cut", given_up="broke off")], "broke off"),
        # An agent's own storm, and a request like no other that was answered.
        ([llm_call(1, 429, given_up="429", open_calls=60)], ""),
        ([llm_call(1, 429, given_up="429", open_calls=8)], "429"),
        ([llm_call(1, 503, given_up="503", open_calls=60)], "503"),
        ([llm_call(1), llm_call(2, 429, given_up="429", request_bytes=10**6)], ""),
        ([llm_call(1, request_bytes=600_000), llm_call(2, 429, given_up="429", request_bytes=10**6)], "429"),
    ],
)
def test_a_last_call_that_came_to_nothing_is_the_providers_doing(calls: list[Any], expected: str) -> None:
    tally = Tally()
    for call in calls:
        tally.add(call)
    assert tally.given_up() == expected


START = datetime(2026, 1, 1, tzinfo=UTC)


def timed(number: int, at_s: float, seconds: float, status: int = 200) -> LlmCall:
    detail = {"given_up": f"a {status}"} if status >= 300 else {}
    update = {"at": START + timedelta(seconds=at_s), "seconds": seconds}
    return llm_call(number, status, **detail).model_copy(update=update)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # Each ends alone, the last one beside all others.
        ([timed(n, n / 100, 10 + n, 429) for n in range(20)], ""),
        ([timed(n, 20.0 * n, 15, 429) for n in range(20)], "a 429"),
        # One after the other, as fast as they are answered.
        ([*(timed(n, n / 10, 0.05) for n in range(200)), timed(200, 20.1, 0.1, 429)], ""),
        ([*(timed(n, n * 2.0, 1) for n in range(200)), timed(200, 401, 1, 429)], "a 429"),
    ],
)
def test_a_storm_is_known_by_when_its_calls_were(calls: list[LlmCall], expected: str) -> None:
    tally = Tally()
    for call in calls:
        tally.add(call)
    assert tally.given_up() == expected


def test_only_answered_calls_are_progress() -> None:
    tally = Tally()
    for call in (llm_call(1), llm_call(2, 500, **GAVE_UP), llm_call(3, 402, refused="x"), llm_call(4)):
        tally.add(call)
    assert tally.answered == 2


def test_each_budget_that_is_spent_is_named() -> None:
    used = LlmUsage(run_id=RUN_ID, is_open=True, requests=3, input_tokens=1200, output_tokens=300, cost_usd=0.5)
    assert spent_words(LlmBudget(usd=0.5, tokens=1500, requests=4), used) == (
        "the budget of its driver LLM was spent: 0.5000 of 0.5 USD, 1,500 of 1,500 tokens"
    )


def call_at(second: float, number: int, status: int = 200) -> LlmCall:
    detail = {"given_up": f"a {status}"} if status >= 300 else {}
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return llm_call(number, status, **detail).model_copy(update={"at": at, "seconds": 10.0})


def test_a_silence_lasts_from_the_first_call_that_nobody_answered() -> None:
    tally = Tally()
    assert tally.silent_s() == 0
    for call in (call_at(0, 1, 503), call_at(100, 2), call_at(200, 3, 503), call_at(500, 4, 503)):
        tally.add(call)
    assert tally.silent_s() == 310
    tally.add(call_at(600, 5))
    assert tally.silent_s() == 0
