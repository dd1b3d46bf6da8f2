"""How real containers end, and what is made of it."""

import time

import pytest

from harness.domain.runs import EndedBy
from harness.sandbox import watch
from harness.sandbox.containers import stop_container
from harness.sandbox.disk import QuotaMode
from harness.sandbox.resources import ResourceMeter

pytestmark = pytest.mark.docker
FILL = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("/workspace/x", "wb") as file:
    while True:
        file.write(bytes(10**6))
"""
EAT_MEMORY = 'python3 -c "x = bytearray(400_000_000)"'


def ending(client, run, **evidence):
    state = watch.wait_exit(client, run.container, 60)
    assert state is not None
    oom = watch.oom_events(client, run.container, state.started_at)
    return state, watch.classify(watch.Evidence(exit=state, oom_events=oom, **evidence))


def test_a_clean_end(client, launch):
    state, end = ending(client, launch("echo done"))
    assert (state.exit_code, end.ended_by, end.detail) == (0, EndedBy.FINISHED, "")


def test_a_crash(client, launch):
    state, end = ending(client, launch("exit 3"))
    assert (state.exit_code, end.ended_by) == (3, EndedBy.CRASH)


def test_the_main_process_out_of_memory(client, launch):
    _, end = ending(client, launch(f"exec {EAT_MEMORY}"))
    assert end.ended_by is EndedBy.OUT_OF_MEMORY


def test_a_child_out_of_memory_while_the_main_process_goes_on(client, launch):
    state, end = ending(client, launch(f"{EAT_MEMORY}; echo and on it goes; exit 0"))
    assert (state.exit_code, end.ended_by) == (0, EndedBy.FINISHED)
    assert "memory limit" in end.detail


def test_a_kill_by_itself_is_not_out_of_memory(client, launch):
    state, end = ending(client, launch("kill -9 $$"))
    assert (state.exit_code, end.ended_by) == (137, EndedBy.CRASH)


def test_the_dead_mans_switch_ends_what_ignores_term(client, launch):
    begin = time.monotonic()
    run = launch("trap '' TERM; while true; do sleep 0.2; done", time_limit_s=2)
    # KILL comes 15 s after TERM.
    state = watch.wait_exit(client, run.container, 40)
    assert state is not None
    assert state.exit_code in (124, 137)
    assert time.monotonic() - begin < 35


def test_stopping_reaches_the_children_of_a_shell(client, launch):
    run = launch('python3 -c "import time; time.sleep(60)"; echo never')
    time.sleep(1)
    begin = time.monotonic()
    stop_container(client, run.container, grace_s=20)
    assert time.monotonic() - begin < 10
    state = watch.wait_exit(client, run.container, 5)
    assert watch.classify(watch.Evidence(exit=state, is_stop_requested=True)).ended_by is EndedBy.STOPPED


def test_a_file_over_the_limit_where_it_is_watched(client, launch):
    script = f"cat > /tmp/fill.py <<'END'\n{FILL}END\nexec python3 /tmp/fill.py"
    state, end = ending(client, launch(script, mode=QuotaMode.WATCH))
    assert end.ended_by is EndedBy.DISK_FULL
    assert state.exit_code == 153


def test_a_wait_that_is_too_short_says_so_and_the_container_goes_on(client, launch):
    run = launch("sleep 3")
    assert watch.wait_exit(client, run.container, 0.3) is None
    assert watch.wait_exit(client, run.container, 30).exit_code == 0


def test_a_fork_bomb_stays_inside_and_is_counted(client, launch):
    run = launch("for i in $(seq 200); do sleep 20 & done; sleep 20")
    meter = ResourceMeter(client, run.container)
    time.sleep(2)
    use = meter.sample()
    assert use is not None
    assert 30 < use.pids <= run.spec.limits.pids
    assert use.pids_limit_hits > 0
    assert use.memory_mb > 1


def test_cpu_use_is_of_one_core(client, launch):
    run = launch("while true; do :; done")
    meter = ResourceMeter(client, run.container)
    meter.sample()
    time.sleep(3)
    use = meter.sample()
    assert use is not None
    # The machine may be busy: what matters is that it is counted, in percent of one core.
    assert 1 < use.cpu_pct < 250


def test_there_is_no_sample_of_what_has_ended(client, launch):
    run = launch("sleep 0.5")
    meter = ResourceMeter(client, run.container)
    watch.wait_exit(client, run.container, 20)
    assert meter.sample() is None


def test_the_daemon_has_not_restarted(client):
    from harness.sandbox.engine import engine_info

    assert not watch.has_restarted(client, engine_info(client))
