"""Gemini's generateContent. The gateway retries; what it passes on ends the agent."""

import json
import os
import urllib.error
import urllib.request

MODEL = os.environ["LLM_MODEL"]
DESCRIPTION = "Runs a command in bash and returns what it printed."
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

TOOLS = [{"functionDeclarations": [{"name": "shell", "description": DESCRIPTION, "parameters": COMMAND}]}]


def user(text):
    """A message of the user's."""
    return {"role": "user", "parts": [{"text": text}]}


def ask(messages):
    """The model's message, its text, and the commands that it wants run: (call, command) each."""
    url = f"{os.environ['LLM_BASE_URL']}/v1beta/models/{MODEL}:generateContent"
    headers = {"Content-Type": "application/json", "x-goog-api-key": os.environ["LLM_API_KEY"]}
    body = json.dumps({"contents": messages, "tools": TOOLS}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
            content = json.load(reply)["candidates"][0]["content"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"LLM: HTTP {error.code}: {error.read().decode(errors='replace')}") from error
    parts = content.get("parts") or []
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return {"role": "model", "parts": parts}, text, [(call, command_of(call)) for call in calls]


def command_of(call):
    """The command in a call; one that cannot be read is answered by bash."""
    return str((call.get("args") or {}).get("command", "echo 'the call has no command' >&2; false"))


def results(pairs):
    """Messages that tell what came of the commands."""
    replies = []
    for call, output in pairs:
        known = {key: call[key] for key in ("id", "name") if key in call}
        replies.append({"functionResponse": {**known, "response": {"output": output}}})
    return [{"role": "user", "parts": replies}] if replies else []
