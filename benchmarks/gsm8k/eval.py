"""Exact match of the final number: the one after `####`, else the last number of the text."""

from __future__ import annotations

import re
from decimal import Decimal

MARK = "####"
# 12 | 1,234 | 1,234.50 | .5 ; a minus counts only where it cannot be a subtraction; a currency sign is no part of it.
NUMBER = re.compile(
    r"(?P<sign>(?<![\w.)])(?<![\d)]\s)-)?\$?(?P<inner>(?<=\$)-)?"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)"
)
MAX_DIGITS = 40


def evaluate(question: str, model_answer: str, reference_answer: str, **kwargs: object) -> float:
    """1.0 where the model's final number equals the reference's, else 0.0."""
    found, expected = extract(model_answer), extract(reference_answer)
    return float(found is not None and found == expected)


def extract(model_answer: str) -> str | None:
    """The final number in its plainest form (`1,234.50` -> `1234.5`, `18.00` -> `18`), None if there is none."""
    text = model_answer.replace("{,}", ",").replace("\u2212", "-").replace("\\$", "$")
    for claim in text.split(MARK)[1:]:
        number = _of_claim(claim)
        if number is not None:
            return number
    return _last(text)


def _of_claim(claim: str) -> str | None:
    """The number stated right after a mark: on its line, behind the last `=` if it is written as a calculation."""
    lines = claim.strip().splitlines()
    if not lines:
        return None
    match = NUMBER.search(lines[0].rpartition("=")[2])
    return _plain(match) if match else None


def _last(text: str) -> str | None:
    matches = list(NUMBER.finditer(text))
    return _plain(matches[-1]) if matches else None


def _plain(match: re.Match[str]) -> str | None:
    digits = match["digits"].replace(",", "")
    if len(digits) > MAX_DIGITS:
        return None
    number = Decimal(digits)
    if match["sign"] or match["inner"]:
        number = -number
    return format(number.normalize() if number else Decimal(0), "f")
