"""Runs mini-swe-agent's default agent on the prompt's file, or on with an earlier session's messages."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml
from history import earlier_messages, last_trajectory
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import InterruptAgentFlow
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.utils.serialize import recursive_merge
from refusal import is_final

TIMEOUT_S = 1200
SHOWN_CHARACTERS = 600


class Refused(Exception):
    """The gateway gives no further answer, and asking again is of no use."""


class GatewayModel(LitellmModel):
    """As it is, but for refusals that will not pass."""

    abort_exceptions = [*LitellmModel.abort_exceptions, Refused]  # noqa: RUF012 (as it is declared there)

    def _query(self, messages: list[dict], **kwargs: Any) -> Any:
        try:
            return super()._query(messages, **kwargs)
        except Exception as error:
            if is_final(error):
                raise Refused(str(error)) from error
            raise


class PrintingAgent(DefaultAgent):
    """Prints what is said, and can take a conversation up again."""

    def add_messages(self, *messages: dict) -> list[dict]:
        for message in messages:
            calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
            shown = "\n".join([str(message.get("content") or ""), *calls]).strip()
            print(f"[{message['role']}] {shown[:SHOWN_CHARACTERS]}", flush=True)
        return super().add_messages(*messages)

    def go_on(self, messages: list[dict], text: str) -> dict:
        """As `run`, behind `messages`."""
        self.messages = messages
        self.add_messages(self.model.format_message(role="user", content=text))
        while self.messages[-1]["role"] != "exit":
            try:
                self.step()
            except InterruptAgentFlow as interruption:
                self.add_messages(*interruption.messages)
            except Exception as error:
                self.handle_uncaught_exception(error)
                raise
            finally:
                self.save(self.config.output_path)
        return dict(self.messages[-1].get("extra", {}))


def main() -> int:
    """0: the agent says that it is done; 1: the LLM gave no answer, or a limit was met."""
    folder = Path(os.environ["TRAJECTORY_DIR"])
    continuation = os.environ.get("CONTINUATION", "0")
    prompt, output = "PROMPT_FILE", folder / f"{continuation}.traj.json"
    messages = None
    if continuation != "0" and (last := last_trajectory(folder)) is not None:
        prompt, messages = "CONTINUE_FILE", earlier_messages(last)
        output = last if messages else output
    agent = _agent(output)
    text = Path(os.environ[prompt]).read_text()
    try:
        end = agent.go_on(messages, text) if messages else agent.run(text)
    except Exception as error:  # noqa: BLE001 (whatever a provider's client raises)
        print(f"mini-swe-agent: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    print(f"mini-swe-agent: {end.get('exit_status')}", flush=True)
    return 0 if end.get("exit_status") == "Submitted" else 1


def _agent(output: Path) -> PrintingAgent:
    own = yaml.safe_load((Path(__file__).parent / "mini.yaml").read_text())
    config = recursive_merge(get_config_from_spec("mini.yaml"), own)
    provider, base = os.environ["LLM_PROVIDER"], os.environ["LLM_BASE_URL"]
    arguments = {
        **config["model"]["model_kwargs"],
        # Keys come from the environment: what stands here is written into the trajectory.
        "api_base": f"{base}/v1beta" if provider == "gemini" else base,
        "timeout": TIMEOUT_S,
    }
    model = GatewayModel(
        **{
            **config["model"],
            "model_name": f"{provider}/{os.environ['LLM_MODEL']}",
            "model_kwargs": arguments,
            "cost_tracking": "ignore_errors",
            "set_cache_control": "default_end" if provider == "anthropic" else None,
        }
    )
    # A training may last as long as the run does.
    environment = LocalEnvironment(
        **config["environment"], cwd=os.environ["WORKSPACE"], timeout=int(os.environ["TIMEOUT_S"])
    )
    # `mode` is of the agent with a person at the keyboard.
    settings = {key: value for key, value in config["agent"].items() if key != "mode"}
    return PrintingAgent(model, environment, **settings, output_path=output)


if __name__ == "__main__":
    sys.exit(main())
