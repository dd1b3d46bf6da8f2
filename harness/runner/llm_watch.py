"""What a run does with its gateway: calls go into the record, and a budget or a provider at its end stops the agent."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from harness.domain.connections import Connection, network_event
from harness.domain.llm import KEY_REFUSED, OVER_BUDGET, QUOTA_GONE, LlmBudget, LlmCall, LlmCalls, LlmUsage
from harness.domain.specs import NetworkPolicy, RunPlan
from harness.errors import InfrastructureError, ServiceUnavailable
from harness.runner.grader_client import GraderClient
from harness.runner.objects import RunObjects
from harness.sandbox.watch import LlmEvidence

POLL_S = 1.0
# An agent has so long to act on the last answer that its budget paid for.
LAST_ACT_S = 10.0
# A gateway that ends is started again by Docker; after so long the harness does.
PATIENCE_S = 5.0
# Calls under way end by themselves soon after their agent.
SETTLE_S, SETTLE_POLL_S = 5.0, 0.1
BATCH = 1000
# A request that is much larger than all that were answered may be what its provider fell over.
ORDINARY_BYTES = 2**18
# As many calls at a time, or one after the other, are the agent's own storm.
MANY_AT_A_TIME = 8
MANY_IN_A_MINUTE = 120
A_MINUTE = timedelta(minutes=1)
# Of a run's time: without an answer for so long at its end, it was the provider's end and not the agent's.
LONG_SHARE = 0.1
STOPS = {
    QUOTA_GONE: "the provider's account has nothing left to spend",
    KEY_REFUSED: "the provider refuses the key",
}


class LlmWatch:
    """The gateway of one run, as the run loop sees it; of a run without one every method does nothing.

    After a death of the harness all calls are read again: the grader keeps each once.
    """

    def __init__(self, plan: RunPlan, grader: GraderClient, objects: RunObjects, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._grader = grader
        self._objects = objects
        self._say = say
        self._tally = Tally()
        self._unsent: list[LlmCall] = []
        self._seen = 0
        self._looked_at = 0.0
        self._silent_since: float | None = None
        self._spent_at: float | None = None
        self._stopped = ""
        # What the gateway was told by a provider that went on answering.
        self._doubted = ""
        self._is_finished = False
        self._is_price_told = False
        self._is_failing = False

    def start(self) -> None:
        """The gateway answers when this returns. Raises: see `RunObjects.start_gateway`."""
        self._objects.start_gateway()

    def look(self) -> None:
        """Reads what is new at the gateway, at most once in POLL_S; one that has died is started again.

        Raises:
            InfrastructureError: it does not come back.
        """
        if self._plan.has_gateway and time.monotonic() >= self._looked_at + POLL_S:
            self._has_read()
            self._looked_at = time.monotonic()

    def must_stop(self) -> bool:
        """Whether the agent is to be stopped now."""
        is_spent = self._spent_at is not None and time.monotonic() >= self._spent_at + LAST_ACT_S
        return is_spent or bool(self._stopped)

    def send(self) -> None:
        """Has the grader write down what was read.

        Raises:
            GraderUnavailable: it is kept for the next time.
        """
        while self._unsent:
            self._grader.add_llm_calls(self._plan.run_id, LlmCalls(calls=tuple(self._unsent[:BATCH])))
            del self._unsent[:BATCH]

    @property
    def answered(self) -> int:
        """How many calls have been answered."""
        return self._tally.answered

    def evidence(self) -> LlmEvidence:
        """What the gateway knows about the end of an agent; waits a moment for calls that are still under way.

        Raises:
            InfrastructureError: it does not come back.
        """
        if not self._plan.has_gateway:
            return LlmEvidence()
        while not self._has_read():
            time.sleep(SETTLE_POLL_S)
        until = time.monotonic() + SETTLE_S
        while self._objects.gateway.usage().open_calls and time.monotonic() < until:
            time.sleep(SETTLE_POLL_S)
        self._read()
        spent = "" if self._spent_at is None else spent_words(self._budget(), self._objects.gateway.usage())
        given_up, own = self._tally.given_up(), ""
        if (given_up or self._doubted) and not self._stopped:
            if self._is_answering():
                given_up, own = "", given_up
            else:
                self._stopped = self._doubted
        was_out = self._tally.silent_s() >= LONG_SHARE * self._plan.limits.timeout_s
        return LlmEvidence(spent=spent, stopped=self._stopped, given_up=given_up, own=own, was_out=was_out)

    def finish(self) -> None:
        """No more calls and connections; the last are in the record. What cannot be had any more is said, and left."""
        if self._is_finished or not self._objects.folder.llm_calls.is_dir():
            return
        try:
            self._objects.gateway.close_run()
            self._read()
            self.send()
            self._note_network()
            self._is_finished = True
        except InfrastructureError as error:
            self._say(f"the last LLM calls and connections are not in the record: {error.what}")

    def _note_network(self) -> None:
        """What the run reached, all attempts together: of several such events the last one counts."""
        if self._plan.network is not NetworkPolicy.ALLOWLIST:
            return
        found: list[Connection] = []
        while more := self._objects.gateway.connections(len(found)):
            found += more
        self._grader.add_event(self._plan.run_id, network_event(found))

    def _has_read(self) -> bool:
        """Whether the gateway answered; one that has not for a while is started again."""
        try:
            self._read()
        except ServiceUnavailable as error:
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() < self._silent_since + PATIENCE_S:
                return False
            self._say(f"starting the LLM gateway again: {error.what}")
            self._objects.start_gateway()
            self._read()
        self._silent_since = None
        return True

    def _read(self) -> None:
        gateway = self._objects.gateway
        while calls := gateway.calls(self._seen):
            self._seen += len(calls)
            self._unsent += calls
            for call in calls:
                self._tally.add(call)
                self._tell_price(call)
                self._tell_failing(call)
        for event in gateway.events(0):
            if event.kind == OVER_BUDGET and self._spent_at is None:
                self._spent_at = time.monotonic()
                self._say("the budget of the driver LLM is spent")
            elif event.kind in STOPS and not (self._stopped or self._doubted):
                self._weigh(f"{STOPS[event.kind]} ({event.detail})")

    def _weigh(self, words: str) -> None:
        """A refusal of all calls counts where the provider does not answer others."""
        if self._is_answering():
            self._doubted = words
        else:
            self._stopped = words
            self._say(words)

    def _is_answering(self) -> bool:
        """Whether the provider answers what it has answered before: then it fell over what the agent had sent."""
        found = self._objects.gateway.ask_again()
        if found.is_answered:
            self._say("an LLM call came to nothing, and the provider answers others: it is taken for the agent's doing")
        return found.is_answered

    def _tell_price(self, call: LlmCall) -> None:
        """A budget in USD that counts a guessed price is told, once, while there is still time to stop the run."""
        is_guessed = "refused" not in call.detail and call.detail.get("is_listed") is False
        if is_guessed and self._budget().usd is not None and not self._is_price_told:
            self._is_price_told = True
            self._say(
                f"the price of {call.model} is not listed: --budget-usd counts it as the dearest that is; "
                "HARNESS_LLM_PRICES names a table of your own"
            )

    def _tell_failing(self, call: LlmCall) -> None:
        """A provider that answers no more, and one that does again: agents may try until their time is up."""
        given_up = call.detail.get("given_up")
        if given_up and not self._is_failing:
            self._is_failing = True
            self._say(f"an LLM call came to nothing: {given_up}")
        elif self._is_failing and not given_up and call.http_status < 300:
            self._is_failing = False
            self._say("the LLM answers again")

    def _budget(self) -> LlmBudget:
        return self._plan.llm.budget if self._plan.llm else LlmBudget()


class Tally:
    """What a run's calls say about its end, in the order in which they ended."""

    def __init__(self) -> None:
        self.answered = 0
        self._last: LlmCall | None = None
        self._largest_bytes = 0
        # When the first of the calls since the last answer began, and when the last of them ended.
        self._silent: tuple[datetime, datetime] | None = None
        # When the latest calls ended.
        self._ends: deque[datetime] = deque(maxlen=MANY_IN_A_MINUTE)
        self._is_in_storm = False

    def add(self, call: LlmCall) -> None:
        detail = call.detail
        ended_at = call.at + timedelta(seconds=call.seconds)
        beside = sum(end > call.at for end in self._ends) + detail.get("open_calls", 1)
        is_fast = len(self._ends) == MANY_IN_A_MINUTE and self._ends[0] > ended_at - A_MINUTE
        self._ends.append(ended_at)
        is_counted = "refused" not in detail and detail.get("is_billed", True)
        has_left = detail.get("ended") in ("agent_left", "closed") and not detail.get("given_up")
        # What an agent broke off itself says nothing of the provider.
        if not is_counted or has_left:
            return
        self._last, self._is_in_storm = call, is_fast or beside > MANY_AT_A_TIME
        self._silent = (self._silent[0] if self._silent else call.at, ended_at)
        if call.http_status < 300 and not detail.get("given_up"):
            self._silent = None
            self.answered += 1
            self._largest_bytes = max(self._largest_bytes, detail.get("request_bytes", 0))

    def silent_s(self) -> float:
        """For how long calls had been without an answer when the last one ended."""
        return (self._silent[1] - self._silent[0]).total_seconds() if self._silent else 0.0

    def given_up(self) -> str:
        """What the provider failed to do at the last call; empty where it answered, or may have had reason not to."""
        if self._last is None:
            return ""
        detail = self._last.detail
        is_ordinary = detail.get("request_bytes", 0) <= max(ORDINARY_BYTES, 2 * self._largest_bytes)
        is_alone = self._last.http_status != 429 or not self._is_in_storm
        return str(detail.get("given_up", "")) if is_ordinary and is_alone else ""


def spent_words(budget: LlmBudget, used: LlmUsage) -> str:
    """Which budget is spent, and how much of it was used."""
    tokens = used.input_tokens + used.output_tokens
    found = []
    if budget.usd is not None and used.cost_usd >= budget.usd:
        found.append(f"{used.cost_usd:.4f} of {budget.usd:g} USD")
    if budget.tokens is not None and tokens >= budget.tokens:
        found.append(f"{tokens:,} of {budget.tokens:,} tokens")
    if budget.requests is not None and used.requests >= budget.requests:
        found.append(f"{used.requests:,} of {budget.requests:,} requests")
    return f"the budget of its driver LLM was spent: {', '.join(found)}"
