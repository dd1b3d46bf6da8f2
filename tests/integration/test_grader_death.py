"""kill -9 in the middle of an evaluation: the next grader scores everything that was queued, and each once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from grader_case import Case
from served import ROOT


def kill_while_scoring(root: Path) -> tuple[str, str, str]:
    """Run id, token and address of the agent of a grader that was killed with two submissions undone."""
    command = [sys.executable, str(ROOT / "tests" / "dying_grader.py"), str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "scoring\n"
        process.kill()
    run_id, token, address = (root / "agent").read_text().split()
    return run_id, token, address


def test_the_queue_goes_on_and_nothing_is_scored_twice(tmp_path: Path):
    run_id, token, address = kill_while_scoring(tmp_path)
    case = Case(tmp_path)
    try:
        agent = case.agent(run_id, token, tmp_path / "workspaces" / run_id, address)
        replies = [agent.wait_for(number)["reply"] for number in (1, 2, 3)]
        assert [reply["submission_id"] for reply in replies] == [1, 2, 3]
        assert replies[2]["best"]["submission_id"] == 1
        # The baseline and the first submission were scored by the grader that died.
        assert case.inference.generated == 2
        assert agent.client.get("submissions").json()["total"] == 3
    finally:
        case.stop()
