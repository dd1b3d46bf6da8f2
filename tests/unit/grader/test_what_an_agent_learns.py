"""Final items decide nothing that an agent can see: whatever becomes of them, it is told the same (decision 0011)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from grader_case import N_ITEMS, AgentSide, Case
from hypothesis import given
from hypothesis import strategies as st

from harness.domain.items import Part, divide
from harness.domain.scoring import Score
from harness.domain.specs import Protocol
from harness.grader.items import hidden_items
from harness.grader.shown import shown_score
from harness.scorer.wire import ScoreReply
from harness.store.models import PartScores

# The clock, and what differs between any two runs.
OF_THE_MOMENT = {"timestamp", "submitted_at", "elapsed_seconds", "start_time", "end_time", "last_submit_time"}
OF_THE_MOMENT |= {"now", "remaining"}


def told(agent: AgentSide) -> list[Any]:
    """Every answer that an agent can get after two submissions and a refused one, without the clock."""
    replies = [agent.submit(agent.write(f"v{skill}", skill)) for skill in (0.8, 0.6)]
    replies += [agent.submit("output/none"), agent.client.post("validate", json={"model_path": "output/v0.6"})]
    paths = ("submissions", "submissions/1", "submissions/2", "time", "health", "submissions/9", "unknown")
    replies += [agent.client.get(path) for path in paths]
    return [(reply.status_code, _timeless(reply.json())) for reply in replies]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _timeless(inner) for key, inner in value.items() if key not in OF_THE_MOMENT | {"load_seconds"}}
        return kept
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def final_ids(case: Case) -> set[str]:
    parts = divide(hidden_items(case.home, case.plan("any")))
    return {item_id for item_id, part in parts.items() if part is Part.FINAL}


def all_final(case: Case, score: float) -> Any:
    """A scorer that gives every final item this score, whatever was answered."""
    chosen = final_ids(case)

    def alter(reply: ScoreReply) -> ScoreReply:
        verdicts = tuple(
            v.model_copy(update={"score": score, "is_extracted": score > 0}) if v.item_id in chosen else v
            for v in reply.verdicts
        )
        return reply.model_copy(update={"verdicts": verdicts})

    return alter


def test_whatever_becomes_of_the_final_items_every_answer_is_the_same(case: Case) -> None:
    seen, finals = [], []
    for score in (None, 0.0, 1.0):
        case.new_scenario()
        if score is not None:
            case.scorer.alter = all_final(case, score)
        agent = case.add_run()
        seen.append(told(agent))
        finals.append(
            [one.final_pct for one in case.admin.status(agent.run_id).submissions if one.final_pct is not None]
        )
    assert seen[0] == seen[1] == seen[2]
    assert finals[1:] == [[0, 0], [100, 100]]
    assert [status for status, _ in seen[0]][:4] == [200, 200, 400, 200]


def test_paper_shows_them_as_it_says(case: Case) -> None:
    shown = []
    for score in (0.0, 1.0):
        case.new_scenario()
        case.scorer.alter = all_final(case, score)
        shown.append(told(case.add_run(protocol=Protocol.PAPER)))
    assert shown[0] != shown[1]


def test_both_parts_are_asked_and_scored_in_one_batch_in_the_order_of_a_hash(case: Case, agent: AgentSide) -> None:
    """So a reply takes as long as all answers do, and neither order nor time tells which items are final."""
    case.inference.requests.clear()
    agent.submit(agent.write("v1", 0.8))
    (request,) = [one for one in case.inference.requests if len(one.prompts) > 1]
    assert len(request.prompts) == N_ITEMS
    items, final = hidden_items(case.home, case.plan("any")), final_ids(case)
    asked = [prompt.messages[-1].content for prompt in request.prompts if prompt.messages]
    assert asked == [item.question for item in items]
    sides = [item.id in final for item in items]
    # About half of neighbours are of two parts.
    assert 0.3 < sum(a is not b for a, b in pairwise(sides)) / len(sides) < 0.7


PERCENT = st.floats(0, 100)
SCORES = st.builds(Score, score_pct=PERCENT, stderr_pct=st.floats(0, 50), n_items=st.integers(1, 2000))


@given(SCORES, SCORES, SCORES, SCORES, SCORES)
def test_a_shown_score_is_a_function_of_the_feedback_part_alone(
    feedback: Score, final: Score, other_final: Score, overall: Score, other_overall: Score
) -> None:
    one = PartScores(feedback=feedback, final=final, overall=overall)
    other = PartScores(feedback=feedback, final=other_final, overall=other_overall)
    assert shown_score(one, Protocol.STANDARD) == shown_score(other, Protocol.STANDARD)


@given(st.integers(2, 2000), st.data())
def test_a_shown_score_is_one_of_few_however_many_items_there_are(n: int, data: st.DataObject) -> None:
    """What is shown is told by the items right; it must not tell their number, but near 0 and 100 %."""
    k = data.draw(st.integers(0, n))
    share = k / n
    stderr = 100 * (share * (1 - share) / (n - 1)) ** 0.5
    score = Score(score_pct=100 * share, stderr_pct=stderr, n_items=n)
    shown = shown_score(PartScores(feedback=score, final=score, overall=score), Protocol.STANDARD)
    assert shown is not None
    assert 0 <= shown.score_pct <= 100
    assert abs(shown.score_pct - score.score_pct) <= max(0.1, 2.5 * stderr / 2) / 2 + 0.01
    assert shown.stderr_pct == pytest.approx(stderr, rel=0.5)
