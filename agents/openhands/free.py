"""One free conversation: the whole task in one message, the agent does the rest; `--continue` takes it up again."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from session import STATE, LlmFailed, Session

ID_FILE = STATE / "conversation-id"


def main() -> int:
    """0: the agent says it is done; 1: the LLM failed; 2: it ran out of steps, or went round in circles."""
    conversation_id, prompt = _beginning()
    session = Session(conversation_id, int(os.environ["MAX_STEPS"]))
    try:
        session.say(prompt)
    except LlmFailed as error:
        print(f"openhands-free: the LLM failed: {error}", file=sys.stderr, flush=True)
        return 1
    print(f"openhands-free: {session.status}", flush=True)
    # A training that still runs in the agent's terminal would end with it.
    if not session.is_command_running:
        session.close()
    return 0 if session.status == "finished" else 2


def _beginning() -> tuple[uuid.UUID, str]:
    """The conversation and what to say in it; one that never began is begun."""
    if "--continue" in sys.argv[1:] and ID_FILE.is_file():
        return uuid.UUID(ID_FILE.read_text().strip()), Path(os.environ["CONTINUE_FILE"]).read_text()
    conversation_id = uuid.uuid4()
    STATE.mkdir(parents=True, exist_ok=True)
    ID_FILE.write_text(str(conversation_id))
    return conversation_id, Path(os.environ["PROMPT_FILE"]).read_text()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # No orderly end: it would close a terminal that was left open.
    os._exit(code)
