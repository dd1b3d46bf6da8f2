"""Anthropic's messages. The gateway retries; what it passes on ends the agent."""

import json
import os
import urllib.error
import urllib.request

MODEL = os.environ["LLM_MODEL"]
DESCRIPTION = "Runs a command in bash and returns what it printed."
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

MAX_TOKENS = 16_000
TOOLS = [{"name": "shell", "description": DESCRIPTION, "input_schema": COMMAND}]


def user(text):
    """A message of the user's."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def ask(messages):
    """The model's message, its text, and the commands that it wants run: (call, command) each."""
    url = os.environ["LLM_BASE_URL"] + "/v1/messages"
    headers = {"Content-Type": "application/json", "x-api-key": os.environ["LLM_API_KEY"]}
    headers["anthropic-version"] = "2023-06-01"
    body = json.dumps({"model": MODEL, "max_tokens": MAX_TOKENS, "messages": messages, "tools": TOOLS}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
            content = json.load(reply)["content"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"LLM: HTTP {error.code}: {error.read().decode(errors='replace')}") from error
    text = "".join(block["text"] for block in content if block["type"] == "text")
    calls = [block for block in content if block["type"] == "tool_use"]
    return {"role": "assistant", "content": content}, text, [(call, command_of(call)) for call in calls]


def command_of(call):
    """The command in a call; one that cannot be read is answered by bash."""
    return str(call["input"].get("command", "echo 'the call has no command' >&2; false"))


def results(pairs):
    """Messages that tell what came of the commands."""
    blocks = [{"type": "tool_result", "tool_use_id": call["id"], "content": output} for call, output in pairs]
    return [{"role": "user", "content": blocks}] if blocks else []
