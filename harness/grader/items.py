"""A run's hidden items: read from the evaluation data that the plan names, verified, and chosen."""

from __future__ import annotations

import json
from pathlib import Path

from harness.domain.items import Item, items_hash, parse_item, select
from harness.domain.specs import RunPlan
from harness.errors import EvaluationFailed
from harness.home import Home

EVAL_FILE = "test.jsonl"


def hidden_items(home: Home, plan: RunPlan) -> tuple[Item, ...]:
    """The items that decide this run's scores, in their fixed order.

    Raises:
        EvaluationFailed: the data is not there, malformed, or not what was planned.
    """
    path = home.path / plan.data.eval_path / EVAL_FILE
    items = _read(path)
    if items_hash(items) != plan.data.eval_hash:
        raise EvaluationFailed(f"{path} is not the data that the run was planned with", "Prepare the benchmark again.")
    return tuple(select(items, plan.limit))


def _read(path: Path) -> list[Item]:
    try:
        with path.open(encoding="utf-8") as lines:
            return [parse_item(json.loads(line)) for line in lines if line.strip()]
    except OSError as error:
        raise EvaluationFailed(f"no evaluation data: {error}", "Prepare the benchmark again.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EvaluationFailed(f"{path} holds a malformed item: {error!r}", "Prepare the benchmark again.") from error
