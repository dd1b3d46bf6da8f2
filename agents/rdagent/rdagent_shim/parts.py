"""The parts that RD-Agent is told to use (RL_SCEN, RL_RUNNER, BACKEND); the only module that imports it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import litellm
from rdagent.core.experiment import Experiment, Task
from rdagent.oai.backend.litellm import LiteLLMAPIBackend
from rdagent.scenarios.rl.scen.scenario import RLPostTrainingScen
from rdagent.scenarios.rl.train.runner import RLPostTrainingRunner
from rdagent.utils.workflow.loop import LoopBase

from rdagent_shim import record
from rdagent_shim.grader import QuotaSpent, late_reply, submissions, submit
from rdagent_shim.task import task_text, with_task

# Of a gateway that takes no more calls of this run: the budget is spent, or the run is closed.
FINAL_STATUSES = (401, 402)


class TaskScenario(RLPostTrainingScen):
    """Upstream's scenario with the two methods that its base class demands and it lacks."""

    def get_scenario_all_desc(
        self, task: Task | None = None, filtered_tag: str | None = None, simple_background: bool | None = None
    ) -> str:
        """Background and task; the arguments choose among tasks and tags, of which there are none here."""
        return f"{self.background}\n{task_text(os.environ)}".strip()

    @property
    def rich_style_description(self) -> str:
        """One line for displays."""
        return f"Post-training of {self.base_model} on {self.benchmark}"


class GatewayBackend(LiteLLMAPIBackend):
    """Upstream's LiteLLM client: told of the gateway and of the task, recorded, and ended by a final refusal."""

    def get_complete_kwargs(self) -> Any:
        """Upstream's settings, and where the gateway is: by argument, because settings are printed."""
        base, provider = os.environ["LLM_BASE_URL"], os.environ["LLM_PROVIDER"]
        gateway = {
            "api_base": f"{base}/v1beta" if provider == "gemini" else base,
            "api_key": os.environ["LLM_API_KEY"],
            "stream_options": {"include_usage": True},
        }
        return {**super().get_complete_kwargs(), **gateway}

    def _create_chat_completion_inner_function(
        self, messages: list[dict[str, Any]], response_format: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[str, str | None]:
        told = with_task(messages, task_text(os.environ))
        try:
            return super()._create_chat_completion_inner_function(told, response_format, *args, **kwargs)
        except Exception as error:
            _record("llm_error", messages=told, error=record.ends(str(error)))
            if getattr(error, "status_code", None) in FINAL_STATUSES:
                # Not an Exception: upstream tries those again.
                raise SystemExit(f"the gateway takes no more calls of this run: {error}") from error
            raise


class PatientRunner(RLPostTrainingRunner):
    """Upstream's training and submission, recorded; waits for late scores and the hour's quota, ends with the run's."""

    def develop(self, exp: Experiment) -> Experiment:
        """The experiment with the result of its training and what the grader said.

        Raises:
            LoopTerminationError: no further submission is possible, so that no further round could be measured.
        """
        url = os.environ["GRADING_SERVER_URL"]
        known = len(submissions(url))
        done = super().develop(exp)
        result = done.result
        try:
            if result.get("exit_code") == 0:
                result["benchmark"] = _patiently(url, known, result.get("benchmark"))
        except QuotaSpent as error:
            raise LoopBase.LoopTerminationError(str(error)) from error
        finally:
            fields = {key: result.get(key) for key in ("exit_code", "running_time", "benchmark")}
            _record("training", **fields, output=record.ends(result.get("stdout", "")))
        return done


def _patiently(url: str, known: int, told: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the grader says in the end, where upstream was `told` of no score; `known` submissions were there before."""
    if told is not None and told.get("error_class") != "over_quota":
        return told
    if told is not None:
        folder = RLPostTrainingRunner._find_latest_model(Path(os.environ["OUTPUT_DIR"]))
        reply = submit(url, str(folder))
        if "status_url" not in reply:
            return reply
    return late_reply(known, lambda: submissions(url))


def _record(kind: str, **fields: Any) -> None:
    record.append(os.environ.get("TRAJECTORY_DIR", ""), kind, **fields)


def _record_call(kwargs: dict[str, Any], response: Any, start: datetime, end: datetime) -> None:
    """LiteLLM calls it after each answer, with what the provider says that it used."""
    choice, usage = response.choices[0], response.usage
    details = usage.prompt_tokens_details
    _record(
        "llm_call",
        messages=kwargs["messages"],
        answer=choice.message.content,
        finish_reason=choice.finish_reason,
        seconds=round((end - start).total_seconds(), 3),
        usage={
            "input": usage.prompt_tokens,
            "output": usage.completion_tokens,
            "cached": (details.cached_tokens if details else None) or 0,
        },
    )


litellm.success_callback.append(_record_call)
