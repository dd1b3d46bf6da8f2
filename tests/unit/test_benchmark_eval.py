"""The scoring functions of the benchmarks, on prepared answers."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import indent
from types import ModuleType

import pytest
from standalone import loaded

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load(benchmark_id: str) -> ModuleType:
    return loaded(BENCHMARKS / benchmark_id / "eval.py")


GSM8K = load("gsm8k")
ARITHMETIC = load("arithmetic")


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("#### 72", "72"),
        ("4 * 45 = 180\n#### 180", "180"),
        ("####72", "72"),
        ("####\n18", "18"),
        ("#### 1,080", "1080"),
        ("#### $1,234.50", "1234.5"),
        ("#### -3", "-3"),
        ("#### $-5", "-5"),
        ("#### -$5", "-5"),
        ("#### \u22127", "-7"),
        ("#### 18.", "18"),
        ("#### 18.00", "18"),
        ("#### **18**", "18"),
        ("#### \\$18", "18"),
        ("#### 5 apples", "5"),
        ("#### The answer is 5 apples", "5"),
        ("#### 10 - 3 = 7", "7"),
        ("#### 50%", "50"),
        ("#### 0.50", "0.5"),
        ("#### 5\n\nProblem: more\n#### 9", "5"),
        ("#### none\nso it is 4", "4"),
        ("the answer is 18.", "18"),
        ("She has 2 cats and 3 dogs, 5 in all.", "5"),
        ("\\boxed{1{,}234}", "1234"),
        ("10-3", "3"),
        ("10 - 3", "3"),
        ("10 -3", "3"),
        ("10-3=7", "7"),
        ("(-4)", "-4"),
        ("x = -4", "-4"),
        ("-$1,200", "-1200"),
        ("-0", "0"),
        ("0.0", "0"),
        ("$.50", "0.5"),
        ("Total...18", "18"),
        ("it is.18", "18"),
        ("10,000,", "10000"),
        ("$1,000,000", "1000000"),
        ("1,2,3", "3"),
        ("1,2345", "2345"),
        ("100", "100"),
        ("1e3", "3"),
        ("", None),
        ("####", None),
        ("no number", None),
        ("9" * 1000, None),
    ],
)
def test_gsm8k_reads_the_final_number(answer: str, number: str | None) -> None:
    assert GSM8K.extract(answer) == number


@pytest.mark.parametrize(
    ("answer", "score"),
    [("#### 1080", 1.0), ("$1,080.00", 1.0), ("1080 is near 1081", 0.0), ("#### 108", 0.0), ("", 0.0)],
)
def test_gsm8k_compares_numbers_not_texts(answer: str, score: float) -> None:
    assert GSM8K.evaluate("?", answer, "540 * 2 = <<540*2=1080>>1,080\n#### 1,080", extra="ignored") == score


def test_gsm8k_gives_nothing_where_the_reference_has_no_number_either() -> None:
    assert GSM8K.evaluate("?", "none", "none") == 0.0


def test_gsm8k_reads_a_long_output_at_once() -> None:
    assert GSM8K.extract("1,111" * 200_000 + " #### 5") == "5"
    assert GSM8K.extract("-" * 1_000_000) is None


@pytest.mark.parametrize(
    ("answer", "score"),
    [("82", 1.0), (" 82\n", 1.0), ("082", 0.0), ("82.", 0.0), ("37+45=82", 0.0), ("8 2", 0.0), ("٨٢", 0.0), ("", 0.0)],
)
def test_arithmetic_wants_the_whole_answer_to_be_the_number(answer: str, score: float) -> None:
    assert ARITHMETIC.evaluate("37+45=", answer, "82") == score


def test_arithmetic_tells_what_is_no_number() -> None:
    assert ARITHMETIC.extract("12") == "12"
    assert ARITHMETIC.extract("12 or 13") is None


HUMANEVAL = load("humaneval")
QUESTION = (
    'from typing import List\n\n\ndef first(xs: List[int]) -> int:\n    """ The first.\n    >>> first([1])\n    """\n'
)
BODY = "    if not xs:\n        return 0\n    return xs[0]\n"
WHOLE = f"def first(xs):\n{BODY}"


@pytest.mark.parametrize(
    "answer",
    [
        BODY,
        BODY.lstrip(),
        BODY.rstrip(),
        "if not xs:\n    return 0\nreturn xs[0]",
        f"\n\n{BODY}\n\ndef main():\n    print(first([]))\n",
        f"{BODY}\nThis returns the first one.",
        f"Here is the code:\n\n{BODY}",
        WHOLE,
        f"{QUESTION}{BODY}",
        f"import math\nfrom typing import *\n\n\ndef helper(xs):\n    return xs[0]\n\n\n{WHOLE}\nI hope it helps.",
        f"{WHOLE}\nassert first([1]) == 1",
        f"Sure!\n\n```python\n{WHOLE}```\nIt handles the empty list.",
        f"```\n{WHOLE}\n```",
        f"```py\n{WHOLE}",
        f"```python\n{BODY}```",
        f"```python\n{BODY.lstrip()}```",
        "```python\nif not xs:\n    return 0\nreturn xs[0]\n```",
        f"Usage:\n```python\nfirst([1])\n```\nCode:\n```python\n{WHOLE}```",
        f"  ```python\n{WHOLE}  ```",
        "1. As follows:\n" + indent(f"```python\nimport math\n\n{WHOLE}```\nThat is all.", "   "),
        "- As follows:\n" + indent(f"```python\n{WHOLE}```", "\t"),
        f"1. As follows:\n   ```python\n{BODY}   ```",
        f"{WHOLE}\n\nTOTAL = 3\n\ndef other():\n    return first([])",
        "xs = xs or [0]\n    return xs[0]",
        "xs: list = xs or [0]\nreturn xs[0]",
        "return xs[0] if xs else 0",
        "@cache\ndef helper():\n    return 0\n\ndef first(xs):\n    return xs[0] if xs else 0".replace("@cache\n", ""),
    ],
)
def test_humaneval_reads_programs_in_whatever_form(answer: str) -> None:
    source = HUMANEVAL.program(QUESTION, answer, entry_point="first", test="")
    namespace: dict[str, object] = {}
    exec(compile(source, "answer", "exec"), namespace)
    assert [namespace["first"](xs) for xs in ([7, 8], [])] == [7, 0]  # type: ignore[operator]


@pytest.mark.parametrize(
    "answer", ["", "\n", " \t", "I do not know.", "####", "-", "```python\n```", "# TODO", "?" * 200]
)
def test_humaneval_finds_no_program_where_there_is_none(answer: str) -> None:
    assert HUMANEVAL.extract(answer, entry_point="first") is None


@pytest.mark.parametrize(
    "answer",
    [
        "a" + " " * 8_000 + "!",
        "a: " + "b " * 4_000,
        "```\n" * 2_000,
        " " * 4_000 + "```\n" + (" " * 40 + "x\n") * 200,
        "```" * 3_000,
        "def first(" + "(" * 8_000,
        " " * 8_000 + "x",
        "\n" * 8_000 + "x",
        ("x = 1\n" + " " * 7) * 1_000,
    ],
)
def test_humaneval_reads_long_answers_at_once(answer: str) -> None:
    start = time.thread_time()
    HUMANEVAL.program(QUESTION, answer, entry_point="first", test="")
    assert time.thread_time() - start < 0.5


def test_humaneval_prompt_may_be_repeated_or_not_and_helpers_stay() -> None:
    question = "def helper(x):\n    return x + 1\n\n\ndef second(x):\n    ''' Two more. '''\n"
    source = HUMANEVAL.program(question, "    return helper(helper(x))", entry_point="second", test="")
    namespace: dict[str, object] = {}
    exec(source, namespace)
    assert namespace["second"](1) == 3  # type: ignore[operator]
