"""The scorer client does not believe verdicts that do not fit its request."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI, Response
from served import served

from harness.domain.specs import EvalMode
from harness.errors import EvaluationFailed, ServiceUnavailable
from harness.scorer.client import ScorerClient
from harness.scorer.wire import ScoreItem, ScoreRequest

REQUEST = ScoreRequest(
    eval_mode=EvalMode.PER_SAMPLE,
    items=tuple(ScoreItem(item_id=i, question="q", reference="r", answer="a") for i in "ab"),
    timeout_s=5,
)
GOOD = '{"verdicts": [{"item_id": "a", "score": 1}, {"item_id": "b", "score": 0.5, "is_extracted": false}]}'


def _app(body: str, status: int = 200) -> FastAPI:
    app = FastAPI()
    app.post("/score")(lambda: Response(body, status_code=status, media_type="application/json"))
    return app


def test_verdicts_come_in_the_order_of_the_items(tmp_path: Path) -> None:
    with served(_app(GOOD), tmp_path / "s.sock"):
        reply = ScorerClient(tmp_path / "s.sock").score(REQUEST)
    assert [(verdict.score, verdict.is_extracted) for verdict in reply.verdicts] == [(1.0, True), (0.5, False)]


@pytest.mark.parametrize(
    "body",
    [
        GOOD.replace('"b"', '"a"'),
        '{"verdicts": [{"item_id": "a", "score": 1}]}',
        GOOD.replace("0.5", "1.5"),
        GOOD.replace("0.5", "-0.1"),
        GOOD.replace("0.5", "NaN"),
        GOOD.replace("0.5", "Infinity"),
        GOOD.replace("0.5", "null"),
        "[]",
        "",
    ],
)
def test_verdicts_that_do_not_fit_are_not_believed(body: str, tmp_path: Path) -> None:
    with served(_app(body), tmp_path / "s.sock"), pytest.raises(ServiceUnavailable):
        ScorerClient(tmp_path / "s.sock").score(REQUEST)


def test_an_evaluator_that_raised_fails_the_evaluation(tmp_path: Path) -> None:
    body = '{"kind": "evaluator", "detail": "item a: eval.py raised KeyError"}'
    with served(_app(body, 422), tmp_path / "s.sock"), pytest.raises(EvaluationFailed, match="item a"):
        ScorerClient(tmp_path / "s.sock").score(REQUEST)


def test_an_error_in_another_shape_is_the_services_own(tmp_path: Path) -> None:
    with served(_app("oops", 500), tmp_path / "s.sock"), pytest.raises(ServiceUnavailable, match="500"):
        ScorerClient(tmp_path / "s.sock").score(REQUEST)
