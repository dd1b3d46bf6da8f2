"""Watching a container: waiting for its end, and saying what ended it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import ReadTimeout, RequestException

from harness.domain.base import Frozen
from harness.domain.runs import EndedBy
from harness.errors import InfrastructureError
from harness.sandbox.engine import EngineInfo, docker_errors, start_identity

KILLED, TERMINATED, FILE_TOO_LARGE, TIMED_OUT = 137, 143, 153, 124
# How long a restarting daemon may take to answer again.
_ENGINE_BACK_S = 60.0
_WAIT_SLICE_S = 20.0


class ExitState(Frozen):
    """How a container ended, as the engine tells it."""

    exit_code: int
    is_out_of_memory: bool
    started_at: datetime
    finished_at: datetime
    error: str = ""


class LlmEvidence(Frozen):
    """What a run's gateway says of its driver LLM once the agent has ended; words where it is so, else empty.

    `spent`: its budget; `stopped`: the provider takes no more calls of anybody's; `given_up`: what became of the last
    call that was to be answered, if it was not; `own`: the same of a call that the provider failed at while it answered
    others, which makes it the agent's doing. `was_out`: nothing had been answered for a tenth of the run.
    """

    spent: str = ""
    stopped: str = ""
    given_up: str = ""
    own: str = ""
    was_out: bool = False


class Evidence(Frozen):
    """All that is known about the end of an agent's container; `exit` None: the container is gone."""

    exit: ExitState | None
    oom_events: int = 0
    is_disk_full: bool = False
    pids_limit_hits: int = 0
    is_log_capped: bool = False
    has_deadline_passed: bool = False
    is_stop_requested: bool = False
    has_engine_restarted: bool = False
    llm: LlmEvidence = LlmEvidence()


class Ending(Frozen):
    """How an agent's part ended, and the words for it."""

    ended_by: EndedBy
    detail: str


def exit_state(client: DockerClient, container_id: str) -> ExitState | None:
    """How the container ended; None while it runs or has not been started.

    Raises:
        InfrastructureError: it does not exist (any more), or Docker failed.
    """
    with docker_errors(f"looking at container {container_id[:12]}"):
        state: dict[str, Any] = client.api.inspect_container(container_id)["State"]
    # `dead` is what a container is called whose removal failed half way.
    if state["Status"] not in ("exited", "dead"):
        return None
    return ExitState(
        exit_code=int(state["ExitCode"]),
        is_out_of_memory=bool(state["OOMKilled"]),
        started_at=datetime.fromisoformat(state["StartedAt"]),
        finished_at=datetime.fromisoformat(state["FinishedAt"]),
        error=str(state.get("Error") or ""),
    )


def started_at(client: DockerClient, container_id: str) -> datetime | None:
    """When the container's process began; None if it was created and never started.

    Raises:
        InfrastructureError: it does not exist (any more), or Docker failed.
    """
    with docker_errors(f"looking at container {container_id[:12]}"):
        state: dict[str, Any] = client.api.inspect_container(container_id)["State"]
    return None if state["Status"] == "created" else datetime.fromisoformat(state["StartedAt"])


def ended_at(client: DockerClient, container_id: str) -> datetime | None:
    """When the container's process ended; None while it runs, if it never did, or when it is gone."""
    try:
        state = exit_state(client, container_id)
    except InfrastructureError:
        return None
    return state.finished_at if state else None


def is_running(client: DockerClient, container_id: str) -> bool:
    """Whether the container's process runs: not before its start, not after its end.

    Raises:
        InfrastructureError: it does not exist (any more), or Docker failed.
    """
    with docker_errors(f"looking at container {container_id[:12]}"):
        return bool(client.api.inspect_container(container_id)["State"]["Running"])


def wait_exit(client: DockerClient, container_id: str, timeout_s: float) -> ExitState | None:
    """Waits for the end, at most `timeout_s`; None if the container still runs then. Outlives a restart of the daemon.

    Raises:
        InfrastructureError: the container is gone, or Docker does not come back.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        remaining = deadline - time.monotonic()
        if _wait_slice(client, container_id, max(0.05, min(remaining, _WAIT_SLICE_S))):
            state = exit_state(client, container_id)
            if state is not None:
                return state
        if time.monotonic() >= deadline:
            return None


def _wait_slice(client: DockerClient, container_id: str, timeout_s: float) -> bool:
    """Whether the container has ended, as far as one short wait tells (the end of a wait is no proof: look)."""
    try:
        api: Any = client.api
        api.wait(container_id, timeout=timeout_s)
    except ReadTimeout:
        return False
    except RequestsConnectionError as error:
        # The SDK's word for an expired wait is a ConnectionError too; any other one is the daemon going away.
        if "timed out" not in str(error):
            await_engine(client, _ENGINE_BACK_S)
        return False
    except APIError as error:
        with docker_errors(f"waiting for container {container_id[:12]}"):
            raise error
    return True


def await_engine(client: DockerClient, timeout_s: float) -> None:
    """Returns when the engine answers.

    Raises:
        InfrastructureError: it does not within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            client.api.ping()
            return
        except (DockerException, RequestException) as error:
            if time.monotonic() > deadline:
                raise InfrastructureError(f"Docker went away and did not come back: {error}") from error
        time.sleep(0.5)


def has_restarted(client: DockerClient, before: EngineInfo) -> bool:
    """Whether dockerd was started anew since `before`, so that containers were stopped by it and not by themselves."""
    return not before.has_live_restore and start_identity(client) != before.start_identity


def oom_events(client: DockerClient, container_id: str, since: datetime) -> int:
    """How often the kernel killed a process of the container for memory since then, as far as the engine remembers."""
    filters = {"container": container_id, "event": "oom"}
    with docker_errors(f"asking for events of container {container_id[:12]}"):
        events = client.api.events(since=since, until=int(time.time()) + 1, filters=filters, decode=True)
        return sum(1 for _ in events)


def classify(evidence: Evidence) -> Ending:
    """What ended the agent's part. Never by an exit code alone: 137 is a kill by anybody."""
    state = evidence.exit
    if evidence.is_stop_requested:
        return Ending(ended_by=EndedBy.STOPPED, detail="stopped on request")
    if evidence.has_engine_restarted:
        return Ending(ended_by=EndedBy.INFRASTRUCTURE, detail="Docker's daemon was restarted")
    if state is None:
        return Ending(ended_by=EndedBy.INFRASTRUCTURE, detail="the container has disappeared")
    words = (*_cause(evidence, state), *_traces(evidence, state))
    return Ending(ended_by=_kind(evidence, state), detail="; ".join(word for word in words if word))


def _kind(evidence: Evidence, state: ExitState) -> EndedBy:
    """Whose doing the end of a container is that is there and was not stopped by a person."""
    if evidence.llm.stopped:
        return EndedBy.INFRASTRUCTURE
    # Before exit codes: command lines end with an error of their own once they are refused.
    if evidence.llm.spent:
        return EndedBy.BUDGET
    if evidence.has_deadline_passed:
        # Command lines go on asking a dead provider until their time is up.
        return EndedBy.INFRASTRUCTURE if evidence.llm.given_up and evidence.llm.was_out else EndedBy.DEADLINE
    if state.exit_code and not state.error:
        if state.is_out_of_memory or evidence.oom_events:
            return EndedBy.OUT_OF_MEMORY
        if evidence.is_disk_full or state.exit_code == FILE_TOO_LARGE:
            return EndedBy.DISK_FULL
    if (state.error and state.exit_code) or evidence.llm.given_up:
        return EndedBy.INFRASTRUCTURE
    return EndedBy.CRASH if state.exit_code else EndedBy.FINISHED


def _cause(evidence: Evidence, state: ExitState) -> tuple[str, ...]:
    llm = evidence.llm
    if llm.stopped or llm.spent:
        return (llm.stopped or llm.spent,)
    if evidence.has_deadline_passed:
        outage = f"its LLM had been out for long: {llm.given_up}" if llm.given_up and llm.was_out else ""
        return ("its time was up", outage)
    last_call = f"its last LLM call came to nothing: {llm.given_up}" if llm.given_up else ""
    ending = state.error or _words(state.exit_code)
    return (last_call, ending if state.exit_code else "")


def _traces(evidence: Evidence, state: ExitState) -> list[str]:
    """What else was seen: a limit that was met need not be what ended it."""
    found = []
    if evidence.llm.own:
        found.append(f"its last LLM call came to nothing ({evidence.llm.own}) while the provider answered another")
    if state.is_out_of_memory or evidence.oom_events:
        found.append("a process was killed because the memory limit was reached")
    if evidence.is_disk_full:
        found.append("the disk limit was reached")
    if evidence.pids_limit_hits:
        found.append(f"the process limit was reached ({evidence.pids_limit_hits} forks refused)")
    if evidence.is_log_capped:
        found.append("the log limit was reached")
    return found


def _words(exit_code: int) -> str:
    known = {
        FILE_TOO_LARGE: "a file grew over the disk limit",
        KILLED: "killed (signal 9)",
        TERMINATED: "terminated (signal 15)",
        126: "the start script cannot be run",
        127: "a command was not found",
    }
    return f"exit code {exit_code}" + (f": {known[exit_code]}" if exit_code in known else "")
