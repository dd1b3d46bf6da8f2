"""What an agent's script leaves in the background: waited for while it works, never for longer."""

import time

import pytest

from harness.domain.runs import EndedBy
from harness.sandbox import watch
from harness.sandbox.containers import stop_container

pytestmark = pytest.mark.docker
TRAIN = """python3 -c '
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("told to end", flush=True), sys.exit(0)))
end = time.process_time() + {seconds}
while time.process_time() < end: pass
print("trained", flush=True)
'"""
IDLE = {"env_vars": {"LAUNCH_IDLE_S": "3"}}


def ended(client, run) -> tuple[int, str, float]:
    """Exit code, output, and seconds from start to end."""
    state = watch.wait_exit(client, run.container, 60)
    assert state is not None
    said = client.api.logs(run.container).decode()
    return state.exit_code, said, (state.finished_at - state.started_at).total_seconds()


@pytest.mark.parametrize("how", ["{} &", "nohup {} > log 2>&1 && cat log &", "setsid {} &"])
def test_work_in_the_background_is_waited_for(client, launch, how):
    code, said, _ = ended(client, launch(how.format(TRAIN.format(seconds=5)) + "\nexit 7", **IDLE))
    assert code == 7
    first = said.splitlines()[0]
    assert "[launch] the agent's script has ended; waiting for its background work: " in first
    assert "python3" in first
    assert said.splitlines()[-1] == "trained"


def test_what_only_waits_does_not_hold_the_container(client, launch):
    script = "tail -f /dev/null &\nsetsid sleep 50 &\n(while true; do sleep 1; done) &\nexit 0"
    code, said, seconds = ended(client, launch(script, **IDLE))
    assert code == 0
    assert "not waiting any longer, nothing was at work for 3 s" in said
    assert seconds < 15


def test_a_script_that_leaves_nothing_is_not_waited_for(client, launch):
    code, said, seconds = ended(client, launch("echo a | tee /tmp/x", **IDLE))
    assert (code, said) == (0, "a\n")
    assert seconds < 3


def test_work_in_the_background_has_the_same_deadline(client, launch):
    run = launch(f"setsid {TRAIN.format(seconds=100)} &\nexit 0", time_limit_s=4, **IDLE)
    code, said, seconds = ended(client, run)
    assert code == 124
    assert "told to end" in said
    assert seconds < 12


def test_work_in_the_background_can_be_stopped(client, launch):
    run = launch(f"{TRAIN.format(seconds=100)} &\nexit 0", **IDLE)
    time.sleep(3)
    begin = time.monotonic()
    stop_container(client, run.container, 10)
    assert time.monotonic() - begin < 9
    assert "told to end" in client.api.logs(run.container).decode()


def test_a_group_that_its_own_script_kills_ends_with_that(client, launch):
    code, _, _ = ended(client, launch("sleep 50 &\ntrap 'kill 0' EXIT\nexit 0", **IDLE))
    assert code == 143


def test_what_starts_itself_again_and_again_is_over_when_it_does_nothing(client, launch):
    script = "again() { (sleep 0.5; again) & }\nagain\nexit 0"
    code, _, seconds = ended(client, launch(script, **IDLE))
    assert code == 0
    assert seconds < 20


def test_memory_that_background_work_runs_out_of_is_no_crash_of_the_script(client, launch):
    run = launch('python3 -c "x = bytearray(400_000_000)" &\nwait\nexit 0', **IDLE)
    state = watch.wait_exit(client, run.container, 60)
    assert state is not None
    oom = watch.oom_events(client, run.container, state.started_at)
    end = watch.classify(watch.Evidence(exit=state, oom_events=oom))
    assert (state.exit_code, end.ended_by) == (0, EndedBy.FINISHED)
    assert "memory limit" in end.detail
