"""A conversation with an OpenHands agent: the run's LLM, its usual tools, every event a line of the trajectory."""

from __future__ import annotations

import logging
import os
import uuid
import warnings
from pathlib import Path

from connection import is_final, llm_fields
from openhands.sdk import LLM, Agent, Conversation, Event, Tool
from openhands.sdk.context.condenser import default_condenser
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.sdk.conversation.response_utils import get_agent_final_response
from openhands.sdk.event import ObservationEvent, SystemPromptEvent
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.task_tracker import TaskTrackerTool
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr

STATE = Path(os.environ["HOME"]) / ".openhands"
TRAJECTORY = Path(os.environ["TRAJECTORY_DIR"]) / "openhands.jsonl"
# A command without output for this long gives the agent its turn back, and runs on.
QUIET_S = 120
SHOWN_CHARACTERS = 600
# Who looks after a training repeats himself, and is not going round in circles: 4 and 6 times would be enough for that.
REPEATS = {"action_observation": 100, "alternating_pattern": 100}

# What it does is printed event by event; of prices the gateway knows.
logging.disable(logging.INFO)
warnings.filterwarnings("ignore", message="Cost calculation failed")


class LlmFailed(Exception):
    """The LLM gave no answer; `is_final` where none will come any more."""

    def __init__(self, error: ConversationRunError) -> None:
        super().__init__(str(error.original_exception))
        self.is_final = is_final(error.original_exception)


class Session:
    """One conversation; with the id of an earlier one it goes on where that ended."""

    def __init__(self, conversation_id: uuid.UUID, max_steps: int) -> None:
        TRAJECTORY.parent.mkdir(parents=True, exist_ok=True)
        self.conversation = Conversation(
            agent=_agent(),
            workspace=os.environ["WORKSPACE"],
            persistence_dir=STATE / "conversations",
            conversation_id=conversation_id,
            callbacks=[_record],
            max_iteration_per_run=max_steps,
            stuck_detection_thresholds=REPEATS,
            visualizer=None,
            delete_on_close=False,
        )

    def say(self, text: str) -> str:
        """Sends a message, lets the agent work until it ends its turn or is out of steps, and returns its last words.

        Raises:
            LlmFailed: the LLM gave no answer.
        """
        self.conversation.send_message(text)
        try:
            self.conversation.run()
        except ConversationRunError as error:
            raise LlmFailed(error) from error
        return get_agent_final_response(self.conversation.state.events)

    @property
    def status(self) -> str:
        """`finished`, or how else the last turn ended: `error` (out of steps), `stuck`."""
        return str(self.conversation.state.execution_status.value)

    @property
    def is_command_running(self) -> bool:
        """Whether the agent was given its turn back while its last command ran on."""
        for event in reversed(list(self.conversation.state.events)):
            if isinstance(event, ObservationEvent) and event.tool_name == TerminalTool.name:
                return getattr(event.observation, "exit_code", None) == -1
        return False

    def close(self) -> None:
        """Ends the agent's terminal and what runs in it; the conversation can be taken up again."""
        self.conversation.close()


def _agent() -> Agent:
    llm = LLM(usage_id="agent", api_key=SecretStr(os.environ["LLM_API_KEY"]), **llm_fields(os.environ))
    tools = [
        Tool(name=TerminalTool.name, params={"no_change_timeout_seconds": QUIET_S}),
        Tool(name=FileEditorTool.name),
        Tool(name=TaskTrackerTool.name),
    ]
    condenser = default_condenser(llm.model_copy(update={"usage_id": "condenser"}))
    return Agent(llm=llm, tools=tools, condenser=condenser, system_prompt_kwargs={"cli_mode": True})


def _record(event: Event) -> None:
    with TRAJECTORY.open("a", encoding="utf-8") as trajectory:
        trajectory.write(event.model_dump_json() + "\n")
    if not isinstance(event, SystemPromptEvent):
        print(f"[{type(event).__name__}] {event.visualize.plain.strip()[:SHOWN_CHARACTERS]}", flush=True)
