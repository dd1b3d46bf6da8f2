"""Exact match of a whole answer that is one number."""

from __future__ import annotations

import re

INTEGER = re.compile(r"-?\d+", re.ASCII)


def evaluate(question: str, model_answer: str, reference_answer: str, **kwargs: object) -> float:
    """1.0 where the answer is the reference, spaces around it aside, else 0.0."""
    return float(extract(model_answer) == reference_answer.strip())


def extract(model_answer: str) -> str | None:
    """The answer if it is one integer and nothing else, None otherwise."""
    text = model_answer.strip()
    return text if INTEGER.fullmatch(text) else None
