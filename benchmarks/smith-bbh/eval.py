"""Exact match of a short answer, read in the form that its task asks for.

BIG-Bench-Hard is scored by exact match (Suzgun et al. 2022, arXiv:2210.09261, section 3); with reasoning in the output,
the answer is what follows "the answer is" there, the words that the repository's own worked examples end with. So the
answer is read from the line after the first such words if there are any, else from the first line. Of the outputs that
the repository publishes (Codex, 27 tasks, with and without reasoning) this gives all 54 published accuracies.
"""

from __future__ import annotations

import re

# "So the answer is (B)." | "Answer: (B)" | "**Answer:** (B)"
MARK = re.compile(r"\banswer(?: is|:)[ \t]*", re.IGNORECASE)
MAX_LENGTH = 20_000
WRAPPING = "*_`\"' \t"
OPTION = re.compile(r"\(([A-R])\)|([A-R])(?=[).:]|$)")
NAMED = re.compile(r"\(([A-R])\)")
NUMBER = re.compile(r"[-\u2212]?\d{1,15}(?![\d.,]*\d)", re.ASCII)
CHOICES = {
    "yes_no": re.compile(r"(?:yes|no)\b(?!\s*(?:or|and|/))", re.IGNORECASE),
    "true_false": re.compile(r"(?:true|false)\b(?!\s*(?:or|and|/))", re.IGNORECASE),
    "valid_invalid": re.compile(r"(?:valid|invalid)\b(?!\s*(?:or|and|/))", re.IGNORECASE),
}
BRACKETS = frozenset("()[]{}<>")


def evaluate(question: str, model_answer: str, reference_answer: str, form: str = "", **kwargs: object) -> float:
    """1.0 where the answer, in its plainest form, is the reference in its own, else 0.0."""
    found = extract(model_answer, form)
    return float(found is not None and found == extract(reference_answer, form))


def extract(model_answer: str, form: str = "") -> str | None:
    """The answer in its plainest form, None where there is none of this form."""
    line = _line(model_answer[:MAX_LENGTH])
    if form == "choice":
        match = OPTION.match(line)
        # "(A) or (B)" is no answer.
        return f"({match[1] or match[2]})" if match and len({*NAMED.findall(line)}) < 2 else None
    if form in CHOICES:
        match = CHOICES[form].match(line)
        return match[0].lower() if match else None
    if form == "number":
        match = NUMBER.match(line)
        return str(int(match[0].replace("\u2212", "-"))) if match else None
    if form == "brackets":
        symbols = line.replace(",", " ").split()
        return " ".join("".join(symbols)) if symbols and BRACKETS.issuperset("".join(symbols)) else None
    words = line.lower().replace(",", " ").split()
    return " ".join(words) if any(character.isalnum() for character in line) else None


def _line(text: str) -> str:
    """The line with the answer, without what wraps it."""
    mark = MARK.search(text)
    lines = (line.strip(WRAPPING) for line in (text[mark.end() :] if mark else text).splitlines())
    line = next((line for line in lines if line.strip(WRAPPING + ".")), "")
    return line.removesuffix(".").strip(WRAPPING)
