"""The grader dies and comes back: the queue goes on, nothing is lost, nothing is scored twice."""

from __future__ import annotations

import threading

import httpx
from fakes import Hold
from grader_case import AgentSide, Case
from served import wait_until

from harness.domain.base import now_utc
from harness.grader.intake import ADMITTED_AGAIN
from harness.store.models import NewSubmission
from harness.store.quota import quota_of
from harness.store.records_queue import submissions_of
from harness.store.records_submissions import mark_scoring, new_submission


def restarted(case: Case, agent: AgentSide) -> AgentSide:
    case.stop()
    case.start()
    return case.again(agent)


def test_runs_clock_and_replies_are_there_again(own_case: Case):
    agent = own_case.add_run()
    reply = agent.submit(agent.write("v1", 0.8)).json()
    before = agent.client.get("time").json()
    again = restarted(own_case, agent)
    after = again.client.get("time").json()
    assert (after["end_time"], after["last_submit_time"]) == (before["end_time"], before["last_submit_time"])
    assert again.submission(1)["reply"] == reply


def test_what_was_queued_is_scored_once(own_case: Case):
    agent = own_case.add_run()
    own_case.inference.is_up = False
    numbers = [agent.submit_later(agent.write(f"v{n}", 0.5 + n / 10)) for n in range(3)]
    again = restarted(own_case, agent)
    generated = own_case.inference.generated
    own_case.inference.is_up = True
    for number in numbers:
        assert again.wait_for(number)["reply"]["score"] is not None
    assert own_case.inference.generated == generated + 3


def test_what_was_being_scored_is_scored_again(own_case: Case):
    agent = own_case.add_run()
    own_case.inference.is_up = False
    agent.submit_later(agent.write("v1", 0.8))
    mark_scoring(own_case.db, submissions_of(own_case.db, agent.run_id)[0].id)
    again = restarted(own_case, agent)
    own_case.inference.is_up = True
    assert again.wait_for(1)["reply"]["score"] is not None


def test_what_was_being_admitted_is_admitted_when_the_workspace_is_handed_over_again(own_case: Case):
    agent = own_case.add_run()
    asked = NewSubmission(run_id=agent.run_id, model_path=agent.write("v1", 0.8), submitted_at=now_utc())
    new_submission(own_case.db, asked, quota_of(own_case.plan(agent.run_id)))
    again = restarted(own_case, agent)
    assert own_case.admin.status(agent.run_id).needs_output
    assert own_case.admin.status(agent.run_id).open_submissions == 1
    assert again.submission(1)["state"] == "admitting"
    # The grader's own absence must not make it late.
    own_case.start_clock(agent.run_id, seconds_left=-1)
    own_case.hand_over(agent.run_id, agent.workspace)
    assert ADMITTED_AGAIN in again.wait_for(1)["reply"]["note"]


def test_a_workspace_that_is_handed_over_twice_admits_nothing_twice(own_case: Case):
    agent = own_case.add_run()
    own_case.inference.before = hold = Hold()
    agent.submit_later(agent.write("v1", 0.8))
    for _ in range(3):
        own_case.hand_over(agent.run_id, agent.workspace)
    hold.opened.set()
    agent.wait_for(1)
    assert agent.client.get("submissions").json()["total"] == 1


def test_who_waits_is_answered_when_the_grader_stops(own_case: Case):
    agent = own_case.add_run()
    own_case.inference.is_up = False
    replies: list[httpx.Response] = []
    path = agent.write("v1", 0.8)
    waiting = threading.Thread(target=lambda: replies.append(agent.submit(path)))
    waiting.start()
    wait_until(lambda: agent.client.get("health").json()["queue_length"] == 1)
    wait_until(lambda: own_case.admin.status(agent.run_id).needs_services)
    own_case.grader.stop()
    waiting.join(10)
    assert (replies[0].status_code, replies[0].json()["error_class"]) == (503, "grader_trouble")
    own_case.inference.is_up = True
    assert restarted(own_case, agent).wait_for(1)["reply"]["score"] is not None


def test_a_stop_in_the_middle_of_a_baseline_scores_it_later(own_case: Case):
    own_case.inference.is_up = False
    run_id = own_case.register_only()
    own_case.admin.post(f"/runs/{run_id}/baseline")
    wait_until(lambda: own_case.admin.status(run_id).needs_services)
    own_case.stop()
    own_case.inference.is_up = True
    own_case.start()
    wait_until(lambda: own_case.admin.status(run_id).baseline is not None)
