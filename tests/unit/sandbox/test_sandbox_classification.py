"""What ended an agent: the table of docs, row by row."""

from datetime import UTC, datetime

import pytest

from harness.domain.runs import EndedBy
from harness.sandbox import watch
from harness.sandbox.engine import EngineInfo
from harness.sandbox.watch import Evidence, ExitState, LlmEvidence, classify

THEN = datetime(2026, 1, 1, tzinfo=UTC)


def ended(code, *, oom=False, error="", **evidence):
    state = ExitState(exit_code=code, is_out_of_memory=oom, started_at=THEN, finished_at=THEN, error=error)
    return classify(Evidence(exit=state, **evidence))


@pytest.mark.parametrize(
    ("code", "seen", "kind", "words"),
    [
        (0, {}, EndedBy.FINISHED, ""),
        (0, {"oom": True}, EndedBy.FINISHED, "memory limit"),
        (0, {"is_disk_full": True}, EndedBy.FINISHED, "disk limit"),
        (1, {}, EndedBy.CRASH, "exit code 1"),
        (137, {"oom": True}, EndedBy.OUT_OF_MEMORY, "memory limit"),
        (137, {}, EndedBy.CRASH, "signal 9"),
        (137, {"oom_events": 1}, EndedBy.OUT_OF_MEMORY, "memory limit"),
        (1, {"oom": True}, EndedBy.OUT_OF_MEMORY, "memory limit"),
        (1, {"is_disk_full": True}, EndedBy.DISK_FULL, "disk limit"),
        (153, {}, EndedBy.DISK_FULL, "disk limit"),
        (1, {"pids_limit_hits": 7}, EndedBy.CRASH, "7 forks refused"),
        (124, {}, EndedBy.CRASH, "exit code 124"),
        (124, {"has_deadline_passed": True}, EndedBy.DEADLINE, "time was up"),
        (137, {"has_deadline_passed": True}, EndedBy.DEADLINE, "time was up"),
        (124, {"has_deadline_passed": True, "is_disk_full": True}, EndedBy.DEADLINE, "up; the disk limit"),
        (0, {"is_log_capped": True}, EndedBy.FINISHED, "log limit"),
        (143, {"is_stop_requested": True}, EndedBy.STOPPED, "on request"),
        (143, {"has_engine_restarted": True}, EndedBy.INFRASTRUCTURE, "daemon was restarted"),
        (143, {}, EndedBy.CRASH, "signal 15"),
        (127, {}, EndedBy.CRASH, "command was not found"),
        (128, {"error": "no such device"}, EndedBy.INFRASTRUCTURE, "no such device"),
        (1, {"llm": LlmEvidence(spent="spent: 2 requests")}, EndedBy.BUDGET, "spent: 2 requests"),
        (0, {"llm": LlmEvidence(spent="spent: 2 requests")}, EndedBy.BUDGET, "spent: 2 requests"),
        (143, {"llm": LlmEvidence(spent="x"), "has_deadline_passed": True}, EndedBy.BUDGET, "x"),
        (1, {"llm": LlmEvidence(stopped="no money", spent="x")}, EndedBy.INFRASTRUCTURE, "no money"),
        (1, {"llm": LlmEvidence(given_up="a 529")}, EndedBy.INFRASTRUCTURE, "came to nothing: a 529; exit code 1"),
        (1, {"llm": LlmEvidence(own="a 529")}, EndedBy.CRASH, "while the provider answered another"),
        (0, {"llm": LlmEvidence(given_up="a 529")}, EndedBy.INFRASTRUCTURE, "came to nothing: a 529"),
        (137, {"llm": LlmEvidence(given_up="a 529"), "oom": True}, EndedBy.OUT_OF_MEMORY, "came to nothing: a 529"),
        (124, {"llm": LlmEvidence(given_up="a 529"), "has_deadline_passed": True}, EndedBy.DEADLINE, "time was up"),
        (
            124,
            {"llm": LlmEvidence(given_up="a 5", was_out=True), "has_deadline_passed": True},
            EndedBy.INFRASTRUCTURE,
            "a 5",
        ),
        (124, {"llm": LlmEvidence(was_out=True), "has_deadline_passed": True}, EndedBy.DEADLINE, "time was up"),
        (143, {"llm": LlmEvidence(spent="x"), "is_stop_requested": True}, EndedBy.STOPPED, "on request"),
    ],
)
def test_each_kind_of_end(code, seen, kind, words):
    ending = ended(code, **seen)
    assert ending.ended_by is kind
    assert words in ending.detail


def test_a_container_that_is_gone_is_not_the_agents_doing():
    assert classify(Evidence(exit=None)).ended_by is EndedBy.INFRASTRUCTURE


def test_stopping_wins_over_a_container_that_is_gone():
    assert classify(Evidence(exit=None, is_stop_requested=True)).ended_by is EndedBy.STOPPED


@pytest.mark.parametrize(
    ("now", "has_live_restore", "is_restarted"),
    [("7.100", False, False), ("9.200", False, True), ("9.200", True, False)],
)
def test_a_daemon_that_was_started_anew_is_known_by_its_start(monkeypatch, now, has_live_restore, is_restarted):
    """Containers that outlive their daemon (live-restore) were not ended by it."""
    before = EngineInfo(
        version="20.10.24",
        boot_id="b",
        start_identity="7.100",
        cgroup_version="1",
        storage_driver="overlay2",
        runtimes=("runc",),
        has_cdi=False,
        has_live_restore=has_live_restore,
        cores=2,
        memory_mb=8000,
    )
    monkeypatch.setattr(watch, "start_identity", lambda client: now)
    assert watch.has_restarted(None, before) is is_restarted
