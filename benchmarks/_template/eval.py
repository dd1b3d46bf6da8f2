"""Exact match of a short answer, case, punctuation and spaces aside. No network here; a model may write anything."""

from __future__ import annotations

MAX_LENGTH = 1_000
MARKS = " \t.,;:!?\"'`*_#-"


def evaluate(question: str, model_answer: str, reference_answer: str, **kwargs: object) -> float:
    """1.0 where the answer is the reference, else 0.0; between for an answer that is partly right."""
    found = extract(model_answer)
    return float(found is not None and found == extract(reference_answer))


def extract(model_answer: str, **kwargs: object) -> str | None:
    """The answer in its plainest form, None where none can be read: is a low score a matter of skill, or of form?"""
    lines = (line.strip(MARKS) for line in model_answer[:MAX_LENGTH].splitlines())
    line = next((line for line in lines if any(character.isalpha() for character in line)), None)
    return " ".join(line.casefold().split()) if line is not None else None
