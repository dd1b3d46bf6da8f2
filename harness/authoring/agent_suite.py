"""The contract suite of agents: what every agent folder promises, tried on one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from harness.authoring import agent_checks
from harness.authoring.agent_image import dockerfile
from harness.authoring.suite import Tell, not_tried, told, tried
from harness.authoring.verdicts import CheckResult, Outcome, Skipped, SuiteReport
from harness.domain.specs import Agent

FOLDER_CHECKS: dict[str, Callable[[Agent], str | Skipped]] = {
    "description": agent_checks.description,
    "scripts": agent_checks.scripts,
    "pipes": agent_checks.pipes,
    "prompt": agent_checks.prompt,
    "resume": agent_checks.resume,
    "code": agent_checks.code,
    "secrets": agent_checks.secrets,
    "trajectory": agent_checks.trajectory,
    "dockerfile": dockerfile,
}
# They need Docker, in this order: nothing can be started without an image.
DOCKER_CHECKS = ("image", "start")


def check_agent(
    agent: Agent, root: Path, in_docker: Mapping[str, Callable[[Agent], str]] | str, tell: Tell
) -> SuiteReport:
    """Tries the folder; `tell` gets each result when it is there.

    `root` is the checkout, `in_docker` what carries DOCKER_CHECKS out, or why that cannot be done here.

    Raises:
        InfrastructureError: Docker broke for reasons of its own.
    """
    results = told(_results(agent, root, in_docker), tell)
    return SuiteReport(kind="agent", name=agent.id, path=str(agent.path), checks=results)


def _results(agent: Agent, root: Path, in_docker: Mapping[str, Callable[[Agent], str]] | str) -> Iterator[CheckResult]:
    llm = ", ".join(agent.config.llm) or "none"
    yield CheckResult(name="config", outcome=Outcome.PASSED, what=f"LLM: {llm}")
    for name, look in FOLDER_CHECKS.items():
        yield tried(name, partial(look, agent))
    yield tried("docs", partial(agent_checks.docs, agent, root))
    if isinstance(in_docker, str):
        yield from not_tried(DOCKER_CHECKS, in_docker)
        return
    image = tried("image", partial(in_docker["image"], agent))
    yield image
    if image.outcome is Outcome.FAILED:
        yield from not_tried(DOCKER_CHECKS[1:], "there is no fit image")
    else:
        yield tried("start", partial(in_docker["start"], agent))
