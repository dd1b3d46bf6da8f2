"""Handing descriptors over: one directory each, for a run that is known, and nothing leaks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from grader_case import AgentSide, Case

from harness.grader.descriptors import DescriptorListener
from harness.runner.grader_client import GraderClient
from harness.unix_socket import reachable


@pytest.fixture
def listener(case: Case) -> Iterator[DescriptorListener]:
    listener = DescriptorListener(case.home, case.grader.active, case.grader.intake.take_up)
    listener.start()
    yield listener
    listener.stop()


def send(case: Case, message: bytes, descriptors: Sequence[int] = ()) -> dict[str, object]:
    with (
        reachable(case.home.descriptor_socket) as address,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
    ):
        connection.settimeout(10)
        connection.connect(address)
        socket.send_fds(connection, [message], list(descriptors)) if descriptors else connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        return json.loads(connection.makefile().readline())


def test_the_harness_hands_a_workspace_over(case: Case, agent: AgentSide, listener: DescriptorListener):
    case.grader.active(agent.run_id).output.replace(None)
    path = agent.write("v1", 0.8)
    assert agent.submit(path).status_code == 503
    GraderClient(case.home).hand_over(agent.run_id, agent.workspace)
    assert agent.submit(path).status_code == 200


def test_a_workspace_is_let_go_of_and_asked_for_again(case: Case, agent: AgentSide):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        assert case.admin.post(f"/runs/{agent.run_id}/release")["ok"]
    assert len(list(Path("/proc/self/fd").iterdir())) < before
    assert case.admin.status(agent.run_id).needs_output
    assert case.admin.post("/runs/never-was/release")["ok"]


def test_the_socket_is_for_its_owner_only(case: Case, listener: DescriptorListener):
    assert case.home.descriptor_socket.stat().st_mode & 0o777 == 0o600
    assert case.home.admin_dir.stat().st_mode & 0o777 == 0o700


def test_what_is_no_hand_over_is_refused_and_nothing_leaks(
    case: Case, agent: AgentSide, listener: DescriptorListener, tmp_path: Path
):
    case.grader.active(agent.run_id).output.replace(None)
    line = json.dumps({"run_id": agent.run_id}).encode() + b"\n"
    (tmp_path / "file").write_text("x")
    folder, file = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path / "file", os.O_RDONLY)
    before = len(list(Path("/proc/self/fd").iterdir()))
    messages: list[tuple[bytes, Sequence[int]]] = [
        (line, ()),
        (line, (file,)),
        (line, (folder, folder)),
        (line, (folder,) * 9),
        (b'{"run_id": "none"}\n', (folder,)),
        (b"[]\n", (folder,)),
        (b"{\n", (folder,)),
        (b"x" * 5000, (folder,)),
        (b"", ()),
    ]
    for message, descriptors in messages:
        assert "error" in send(case, message, descriptors), message[:40]
    assert case.admin.status(agent.run_id).needs_output
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    os.close(folder)
    os.close(file)


def test_a_workspace_is_let_go_when_the_run_is_closed(case: Case, agent: AgentSide):
    output = case.grader.active(agent.run_id).output
    case.close_runs()
    assert not output.is_there
