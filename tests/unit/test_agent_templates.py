"""The loop that `harness new agent --llm ...` writes, as a process against a provider's protocol on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, chat_server

from harness.authoring.template_folder import write_agent

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "echo made > made.txt; echo seen; exit 3"
# A call of the shell, and words without one, as each provider says them.
CALLS: dict[str, tuple[Any, Any]] = {
    "openai": (
        {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function",
             "function": {"name": "shell", "arguments": json.dumps({"command": COMMAND})}}
        ]}}]},
        {"choices": [{"message": {"role": "assistant", "content": "Done."}}]},
    ),
    "anthropic": (
        {"content": [{"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": COMMAND}}]},
        {"content": [{"type": "text", "text": "Done."}]},
    ),
    "gemini": (
        {"candidates": [{"content": {"role": "model", "parts": [
            {"functionCall": {"name": "shell", "args": {"command": COMMAND}}}
        ]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Done."}]}}]},
    ),
}  # fmt: skip
PATHS = {
    "openai": "/v1/chat/completions", "anthropic": "/v1/messages", "gemini": "/v1beta/models/m:generateContent"
}  # fmt: skip


def started(folder: Path, protocol: str, server: ChatServer, continuation: int = 0) -> subprocess.CompletedProcess[str]:
    """The agent's start script in a workspace of its own, as the harness starts it."""
    workspace = folder.parent / "workspace"
    workspace.mkdir(exist_ok=True)
    for name in ("prompt", "continue"):
        (folder.parent / f"{name}.md").write_text(f"the {name} text\n")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "WORKSPACE": str(workspace),
        "TRAJECTORY_DIR": str(workspace / "trajectory"),
        "PROMPT_FILE": str(folder.parent / "prompt.md"),
        "CONTINUE_FILE": str(folder.parent / "continue.md"),
        "CONTINUATION": str(continuation),
        "LLM_MODEL": "m",
        "LLM_API_KEY": "run-token",
        "LLM_BASE_URL": server.base_url if protocol == "openai" else server.base_url.removesuffix("/v1"),
    }
    command = ["bash", str(folder / "start.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("protocol", CALLS)
def test_it_runs_what_the_llm_says_and_is_taken_up_again(tmp_path: Path, protocol: str) -> None:
    folder = tmp_path / "mine"
    write_agent(ROOT, folder, protocol)
    call, words = ((200, json.dumps(reply).encode()) for reply in CALLS[protocol])
    with chat_server(call, words, words) as server:
        ended = started(folder, protocol, server)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert (tmp_path / "workspace" / "made.txt").read_text() == "made\n"
        assert "seen\n\n[exit code 3]\nDone." in ended.stdout
        again = started(folder, protocol, server, continuation=1)
    assert again.returncode == 0
    assert {request["path"] for request in server.requests} == {PATHS[protocol]}
    first, second, third = (json.dumps(request) for request in server.requests)
    assert "the prompt text" in first
    assert "seen" in second
    assert "the prompt text" in third
    assert "the continue text" in third
    assert "Done." in third


def test_a_refusal_is_told_and_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write_agent(ROOT, folder, "openai")
    with chat_server((402, b'{"error": {"type": "budget_exceeded"}}')) as server:
        ended = started(folder, "openai", server)
    assert ended.returncode == 1
    assert "HTTP 402" in ended.stderr
    assert "budget_exceeded" in ended.stderr
    assert len(server.requests) == 1


def test_a_call_that_cannot_be_read_is_told_to_the_llm(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    write_agent(ROOT, folder, "openai")
    broken = json.dumps(CALLS["openai"][0]).replace("command", "order")
    with chat_server((200, broken.encode()), (200, json.dumps(CALLS["openai"][1]).encode())) as server:
        ended = started(folder, "openai", server)
    assert ended.returncode == 0
    assert "the call has no command" in json.dumps(server.requests[1])
