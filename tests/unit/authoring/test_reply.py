"""Reading a model's draft: only what was asked for, in bounded sizes."""

from __future__ import annotations

import json

import pytest
from drafts import GOOD, good, reply

from harness.authoring.reply import parse_reply
from harness.errors import UsageError


def test_a_draft_is_read_with_and_without_a_fence() -> None:
    for text in (good(), f"```json\n{good()}\n```\n", f"\n{good()}\n"):
        draft = parse_reply(text)
        assert draft.files == GOOD
        assert draft.notes == "read it"


def without(name: str) -> str:
    return reply({key: value for key, value in GOOD.items() if key != name})


def nested(depth: int) -> str:
    return '{"files": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no JSON"),
        ("Here is the draft: {}", "no JSON"),
        (f"Sure!\n```json\n{good()}\n```", "no JSON"),
        ("[]", "no object with `files`"),
        ("{}", "no object with `files`"),
        (json.dumps({"files": GOOD, "run": "rm -rf /"}), "no object with `files`"),
        (json.dumps({"files": [*GOOD]}), "no object with `files`"),
        ('{"files": {"a": "1"}, "files": {}}', "twice"),
        (nested(100_000), "no JSON"),
        (without("eval.py"), r"lacks eval\.py"),
        (without("data.py"), r"lacks data\.py or download_data\.py"),
        (reply({**GOOD, "../../.bashrc": "x"}), "has a file ../../.bashrc"),
        (reply({**GOOD, "/etc/cron.d/x": "x"}), "has a file /etc/cron.d/x"),
        (reply({**GOOD, "start.sh": "x"}), r"has a file start\.sh"),
        (reply({**GOOD, "requirements.txt": "evil"}), "has a file requirements"),
        (reply({**GOOD, "eval.py\x00.txt": "x"}), "has a file"),
        (reply({**GOOD, "EVAL.PY": "x"}), "has a file EVAL.PY"),
        (reply({**GOOD, "eval.py": "x" * (64 * 2**10 + 1)}), "has 65537 bytes"),
        (reply({**GOOD, "eval.py": "a\0b"}), "no NUL"),
        (reply({**GOOD, "eval.py": "\ud800"}), "cannot be stored"),
        (json.dumps({"files": {**GOOD, "eval.py": 5}}), "is no text"),
        ("x" * 500_000, "500000 characters"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reply(text)
    assert what.replace("\\", "") in str(caught.value)


def test_long_notes_are_cut() -> None:
    assert len(parse_reply(reply(GOOD, "x" * 100_000)).notes) == 4_000
