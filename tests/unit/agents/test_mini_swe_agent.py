"""What agents/mini-swe-agent takes over from an earlier session, and when it stops asking."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from standalone import loaded

FOLDER = Path(__file__).resolve().parents[3] / "agents" / "mini-swe-agent"


def load(name: str) -> ModuleType:
    return loaded(FOLDER / f"{name}.py")


HISTORY, REFUSAL = load("history"), load("refusal")


def call(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}"}]}


def result(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": "x"}


BEGIN = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
END = {"role": "exit", "content": ""}


def session(folder: Path, messages: list[dict[str, Any]], status: str = "Submitted", name: str = "0") -> Path:
    path = folder / f"{name}.traj.json"
    path.write_text(json.dumps({"info": {"exit_status": status}, "messages": messages}))
    return path


def test_a_finished_session_is_taken_over_up_to_its_last_answered_call(tmp_path: Path) -> None:
    path = session(tmp_path, [*BEGIN, call(1), result(1), call(2), END])
    assert HISTORY.earlier_messages(path) == [*BEGIN, call(1), result(1)]


@pytest.mark.parametrize("status", ["ContextWindowExceededError", "RepeatedFormatError", "", "APIError"])
def test_a_session_that_broke_is_not_taken_over(tmp_path: Path, status: str) -> None:
    assert HISTORY.earlier_messages(session(tmp_path, [*BEGIN, call(1), result(1), END], status)) is None


def test_a_call_without_a_result_is_not_sent_again(tmp_path: Path) -> None:
    assert HISTORY.earlier_messages(session(tmp_path, [*BEGIN, call(1), call(2), result(2), END])) is None


def test_a_file_that_was_cut_off_is_not_taken_over(tmp_path: Path) -> None:
    (path := tmp_path / "0.traj.json").write_text('{"info": {"exit_sta')
    assert HISTORY.earlier_messages(path) is None


def test_the_newest_session_is_the_last(tmp_path: Path) -> None:
    assert HISTORY.last_trajectory(tmp_path) is None
    for at, name in ((5, "1"), (9, "0"), (7, "2")):
        os.utime(session(tmp_path, BEGIN, name=name), (at, at))
    (tmp_path / "other.json").write_text("{}")
    assert HISTORY.last_trajectory(tmp_path) == tmp_path / "0.traj.json"


def test_a_spent_budget_is_final_whatever_the_client_makes_of_it() -> None:
    refused = RuntimeError("no")
    refused.status_code = 402  # type: ignore[attr-defined]
    assert REFUSAL.is_final(refused)
    assert REFUSAL.is_final(ValueError('BadRequestError: {"code": "budget_exceeded"}'))
    assert not REFUSAL.is_final(RuntimeError("503 overloaded"))
