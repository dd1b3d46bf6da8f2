"""OpenAI's chat completions, as other servers speak them too. The gateway retries; what it passes on ends the agent."""

import json
import os
import urllib.error
import urllib.request

MODEL = os.environ["LLM_MODEL"]
DESCRIPTION = "Runs a command in bash and returns what it printed."
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

TOOLS = [{"type": "function", "function": {"name": "shell", "description": DESCRIPTION, "parameters": COMMAND}}]


def user(text):
    """A message of the user's."""
    return {"role": "user", "content": text}


def ask(messages):
    """The model's message, its text, and the commands that it wants run: (call, command) each."""
    url = os.environ["LLM_BASE_URL"] + "/chat/completions"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['LLM_API_KEY']}"}
    body = json.dumps({"model": MODEL, "messages": messages, "tools": TOOLS}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
            message = json.load(reply)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"LLM: HTTP {error.code}: {error.read().decode(errors='replace')}") from error
    kept = {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}
    return kept, message.get("content") or "", [(call, command_of(call)) for call in message.get("tool_calls") or []]


def command_of(call):
    """The command in a call; one that cannot be read is answered by bash."""
    try:
        return str(json.loads(call["function"]["arguments"])["command"])
    except (ValueError, KeyError, TypeError):
        return "echo 'the call has no command' >&2; false"


def results(pairs):
    """Messages that tell what came of the commands."""
    return [{"role": "tool", "tool_call_id": call["id"], "content": output} for call, output in pairs]
