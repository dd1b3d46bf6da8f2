"""What `instructions.md` tells an agent to type works as it stands, and fails as it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import Any

import pytest
from grader_case import AgentSide, Case

from harness.runner.prompts import instructions

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.M | re.S)


@pytest.fixture
def commands(case: Case) -> list[str]:
    blocks = BLOCK.findall(instructions(case.plan("any")))
    return [line for block in blocks for line in block.splitlines() if line]


def typed(case: Case, agent: AgentSide, command: str) -> Any:
    """What the command says, typed by the run's agent: the address is the run's own."""
    url = f"http://127.0.0.1:{case.port}/r/{agent.token}"
    environment = {"PATH": os.environ["PATH"], "GRADING_SERVER_URL": url}
    words = command.replace("curl ", f"curl --noproxy '*' --interface {agent.address} --write-out '\\n%{{http_code}}' ")
    ended = subprocess.run(
        ["bash", "-c", words], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    body, _, status = ended.stdout.rpartition("\n")
    return int(status), json.loads(body)


def test_every_command_works_as_it_stands(case: Case, agent: AgentSide, commands: list[str]) -> None:
    agent.write("v1", 0.5)
    agent.write("v2", 0.6)
    submit, later, all_of_them, first, validate, clock = (typed(case, agent, command) for command in commands)
    assert submit[0] == 200
    assert {"submission_id", "score", "baseline_score", "improvement", "best", "stderr", "note"} <= submit[1].keys()
    assert (later[0], later[1]["submission_id"]) == (202, 2)
    assert (all_of_them[0], all_of_them[1]["total"]) == (200, 2)
    assert (first[0], first[1]["state"], first[1]["reply"]["score"]) == (200, "scored", submit[1]["score"])
    assert (validate[0], validate[1]["valid"]) == (200, True)
    assert clock[0] == 200
    assert 0 < clock[1]["remaining"] <= 600


def test_a_trainers_own_folder_is_refused_with_the_reason(case: Case, agent: AgentSide, commands: list[str]) -> None:
    agent.write("v1", 0.5)
    (agent.workspace / "output" / "v1" / "training_args.bin").write_bytes(b"x")
    status, reply = typed(case, agent, commands[0])
    assert (status, reply["error_class"]) == (422, "forbidden_file")
    assert "training_args.bin" in reply["error"]


def test_every_error_class_that_is_named_exists(case: Case) -> None:
    from harness.errors import ErrorClass

    rows = re.findall(r"^\| [\d, ]+ \| (.*?) \|", instructions(case.plan("any")), re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named <= {error_class.value for error_class in ErrorClass}
    assert len(named) > 8
