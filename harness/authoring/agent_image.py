"""The checks of an agent's Dockerfile, of the image that comes of it, and of a start without a task."""

from __future__ import annotations

import re
import time
from pathlib import Path

from harness.authoring.agent_checks import SECRET_NAME
from harness.authoring.docker_workshop import DockerWorkshop
from harness.authoring.scratch import scratch_folder
from harness.authoring.verdicts import Skipped
from harness.domain.specs import Agent, Limits
from harness.errors import UsageError
from harness.runner.plan import product_tags
from harness.runner.workspace import make_folders
from harness.sandbox.agent import CONTINUE_NAME, KILL_AFTER_S, PROMPT_NAME, AgentContainerSpec, AgentLlm
from harness.sandbox.agent_probe import ImageFacts, image_facts, probe_start
from harness.sandbox.derived_images import agent_image, ensure_image
from harness.sandbox.disk import Quota, QuotaMode
from harness.sandbox.hardening import agent_user
from harness.sandbox.images import has_image
from harness.sandbox.networks import NO_NETWORK
from harness.sandbox.owner import current_owner
from harness.sandbox.watch import KILLED

INSTRUCTION = re.compile(r"^\s*(ARG|FROM|USER|VOLUME|ENV)\s+(.+?)\s*$", re.IGNORECASE | re.MULTILINE)
STAGE = re.compile(r"(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
# What a start without a task may take of the machine, and how long it is watched before it is ended.
PROBE_LIMITS = Limits(timeout_s=60, memory_mb=2_000, disk_mb=500)
WATCH_S = 8.0
NOT_FOUND = (126, 127)
MODEL = "none/none"


def dockerfile(agent: Agent) -> str | Skipped:
    """The image is the agent image with something on top, for a user that is not root."""
    path = agent.image_folder / "Dockerfile"
    if not path.is_file():
        return Skipped(reason="no Dockerfile: the agent image as it is")
    found = INSTRUCTION.findall(path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " "))
    found = [(word.upper(), rest) for word, rest in found]
    stages = [number for number, (word, _) in enumerate(found) if word == "FROM"]
    if not stages or not stands_on_base([found[number][1] for number in stages]):
        raise UsageError("its last stage does not stand on the agent image", "Write `ARG BASE` and `FROM ${BASE}`.")
    if not any(word == "ARG" and rest.split("=")[0] == "BASE" for word, rest in found[: stages[0]]):
        raise UsageError("it does not take the agent image as an argument", "Put `ARG BASE` before the first FROM.")
    last = found[stages[-1] :]
    if any(word == "VOLUME" for word, _ in last):
        raise UsageError("it declares a VOLUME, which would lie outside of the size limit", "Take VOLUME out.")
    users = [rest for word, rest in last if word == "USER"]
    if users and is_root(users[-1]):
        raise UsageError(f"it ends as user {users[-1]}", "End it with `USER 1000:1000`.")
    return f"{len(stages)} stage{'s' if len(stages) > 1 else ''}, user {users[-1] if users else 'of the agent image'}"


def stands_on_base(stages: list[str]) -> bool:
    """Whether the last of these FROMs leads to the agent image, by itself or through stages before it."""
    ours, parent = {"${BASE}", "$BASE"}, ""
    for parent, name in (match.groups() for match in map(STAGE.match, stages) if match):
        if parent in ours and name:
            ours.add(name)
    return parent in ours


def is_root(user: str) -> bool:
    """Whether Docker would start such a user's process as root."""
    return user.split(":")[0] in ("", "0", "root")


def image(place: DockerWorkshop, agent: Agent) -> str:
    """The image can be built, runs as a user that is not root, declares no volume and holds no key."""
    tags = product_tags(place.settings)
    plan = agent_image(agent.image_folder, tags)
    is_there = has_image(place.client, plan.tag)
    started = time.monotonic()
    ensure_image(place.client, place.settings.root.resolve(), plan, place.show_build)
    spent = "was there" if is_there else f"built in {time.monotonic() - started:.0f} s"
    facts, ours = image_facts(place.client, plan.tag), image_facts(place.client, tags["agent"])
    _check_facts(facts, ours)
    more = f", {(facts.size_bytes - ours.size_bytes) / 1e6:.0f} MB of it its own" if plan.is_derived else ""
    return f"{plan.tag} {spent}: {facts.size_bytes / 1e6:.0f} MB{more}"


def _check_facts(facts: ImageFacts, ours: ImageFacts) -> None:
    if is_root(facts.user):
        raise UsageError("the image runs as root", "End its Dockerfile with `USER 1000:1000`.")
    if facts.volumes:
        raise UsageError(f"the image declares volumes: {', '.join(facts.volumes)}", "Take VOLUME out.")
    # An official Python image has a GPG_KEY, which is no secret.
    keys = [name for name, value in facts.environment.items() if value and SECRET_NAME.search(name)]
    if new := [name for name in keys if name not in ours.environment]:
        raise UsageError(f"the image's environment sets {', '.join(new)}", "Take it out: every agent could read it.")


def start(place: DockerWorkshop, agent: Agent) -> str:
    """It starts as in a run, here without task and network, and ends when it is told to."""
    with scratch_folder(place.scratch) as scratch:
        scratch.chmod(0o755)
        seen = probe_start(place.client, _spec(place, agent, scratch), WATCH_S)
    words = f": {seen.last_line}" if seen.last_line else ""
    if seen.exit_code in NOT_FOUND:
        raise UsageError(f"a program is missing (exit code {seen.exit_code}){words}", "Install it in the Dockerfile.")
    if seen.was_told and seen.exit_code == KILLED:
        raise UsageError(f"TERM does not end it within {KILL_AFTER_S} s", "Let its script or program end upon TERM.")
    if seen.was_told:
        return f"runs; TERM ended it after {seen.ending_s:.1f} s"
    return f"starts; without a task it ended by itself with exit code {seen.exit_code}{words}"


def _spec(place: DockerWorkshop, agent: Agent, scratch: Path) -> AgentContainerSpec:
    """A container as in a run, with folders in which nothing is."""
    uid, gid = agent_user()
    quota = Quota(mode=QuotaMode.WATCH, folder=scratch, size_mb=PROBE_LIMITS.disk_mb, uid=uid, gid=gid)
    quota.create()
    make_folders(quota.run_folder.workspace, MODEL, uid, gid)
    folders = {name: scratch / name for name in ("meta", "model", "data")}
    for folder in folders.values():
        folder.mkdir()
        folder.chmod(0o755)
    for name in (PROMPT_NAME, CONTINUE_NAME):
        (folders["meta"] / name).write_text("This is a check. There is no task, no LLM and no grader: end at once.\n")
    (folders["data"] / "train.jsonl").touch()
    config = agent.config
    llm = AgentLlm(provider=config.llm[0], model=config.model or "none", token="none") if config.llm else None
    return AgentContainerSpec(
        home_label=place.home.label,
        run_id=place.check_id,
        owner=current_owner(),
        image=agent_image(agent.image_folder, product_tags(place.settings)).tag,
        agent_folder=agent.path,
        start=config.start,
        **folders,
        model_repo_id=MODEL,
        quota=quota,
        network=NO_NETWORK,
        limits=PROBE_LIMITS,
        time_limit_s=PROBE_LIMITS.timeout_s,
        task="none",
        grading_url="http://grader:5000/r/none",
        llm=llm,
        env_vars=config.env_vars,
    )
