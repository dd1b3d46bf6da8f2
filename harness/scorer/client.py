"""The grader's half of the scorer service: one evaluation per request, verdicts checked before they are believed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from harness.errors import EvaluationFailed, HarnessError, ServiceUnavailable
from harness.scorer.wire import ErrorReply, PromptsReply, PromptsRequest, ScoreReply, ScoreRequest
from harness.unix_http import Reply, UnixHttp

Wire = TypeVar("Wire", bound=BaseModel)

HEALTH_TIMEOUT_S = 5.0
# Beyond the evaluation's own limit: start of its process, transfer of items and verdicts.
MARGIN_S = 60.0
MAX_DETAIL = 4_000
OK = 200


class ScorerClient:
    """Calls of one scorer service."""

    def __init__(self, socket: Path) -> None:
        self._http = UnixHttp(socket, "scorer")

    def is_ready(self) -> bool:
        """Whether the service answers."""
        try:
            return self._http.request("GET", "/health", HEALTH_TIMEOUT_S).status == OK
        except ServiceUnavailable:
            return False

    def prompts(self, request: PromptsRequest) -> PromptsReply:
        """One prompt for each item, in order, made by the evaluator.

        Raises: as `score`.
        """
        reply = self._http.request("POST", "/prompts", request.timeout_s + MARGIN_S, request)
        made = _parsed(reply, PromptsReply)
        if len(made.prompts) != len(request.items):
            raise ServiceUnavailable("the scorer service's prompts are not as many as the items that were sent")
        return made

    def score(self, request: ScoreRequest) -> ScoreReply:
        """One verdict for each item, in order, every score finite and in [0, 1].

        Raises:
            EvaluationFailed: the benchmark's evaluator raised, ran too long, or is of a mode that is not served.
            ServiceUnavailable: the service does not answer, broke off, or its reply does not fit the request.
        """
        reply = self._http.request("POST", "/score", request.timeout_s + MARGIN_S, request)
        scored = _parsed(reply, ScoreReply)
        _check(request, scored)
        return scored


def _parsed(reply: Reply, model: type[Wire]) -> Wire:
    if reply.status != OK:
        raise _failure(reply)
    try:
        return model.model_validate_json(reply.body)
    except ValidationError as error:
        why = error.errors(include_input=False)[0]["msg"]
        raise ServiceUnavailable(f"the scorer service sent no valid {model.__name__}: {why}") from error


def _check(request: ScoreRequest, reply: ScoreReply) -> None:
    asked = [item.item_id for item in request.items]
    if [verdict.item_id for verdict in reply.verdicts] != asked:
        raise ServiceUnavailable("the scorer service's verdicts are not those of the items that were sent")
    for verdict in reply.verdicts:
        if not (math.isfinite(verdict.score) and 0 <= verdict.score <= 1):
            raise ServiceUnavailable(f"the scorer service gave item {verdict.item_id} the score {verdict.score}")


def _failure(reply: Reply) -> HarnessError:
    try:
        told = ErrorReply.model_validate_json(reply.body)
    except ValidationError:
        return ServiceUnavailable(f"the scorer service answered with status {reply.status}")
    return EvaluationFailed(f"scorer ({told.kind[:20]}): {told.detail[:MAX_DETAIL]}")
