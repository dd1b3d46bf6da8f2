"""An LLM with a shell: asks, runs what it says, tells it what came of it, until it says that it has finished."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import protocol

MAX_OUTPUT = 20_000
TRANSCRIPT = Path(os.environ["TRAJECTORY_DIR"]) / "messages.jsonl"


def transcript():
    """The messages of the session that ended early, if this is to go on with one."""
    if os.environ["CONTINUATION"] == "0" or not TRANSCRIPT.exists():
        return []
    return [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]


def keep(messages, more):
    """Adds messages to the session, and to its transcript in one write: an end in between leaves no open call."""
    messages += more
    with TRANSCRIPT.open("a") as file:
        file.write("".join(json.dumps(message) + "\n" for message in more))


def run(command):
    """What a command printed (the middle left out if it is long) and its exit code; only the run's time limits it."""
    with tempfile.TemporaryFile() as output:
        # To a file: what the command leaves in the background may keep a pipe open.
        ended = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if len(text) > MAX_OUTPUT:
        text = f"{text[: MAX_OUTPUT // 2]}\n[...]\n{text[-MAX_OUTPUT // 2 :]}"
    return f"{text}\n[exit code {ended.returncode}]"


def main():
    messages = transcript()
    question = [protocol.user(sys.stdin.read())]
    while True:
        message, text, calls = protocol.ask(messages + question)
        print(text, flush=True)
        results = []
        for call, command in calls:
            print(f"$ {command}", flush=True)
            results.append((call, run(command)))
            print(results[-1][1], flush=True)
        keep(messages, [*question, message, *protocol.results(results)])
        question = []
        if not calls:
            return


if __name__ == "__main__":
    main()
