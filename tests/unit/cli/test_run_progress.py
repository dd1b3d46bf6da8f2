"""How a run is shown where there is no terminal: which run it is, and a line for what changes."""

from harness.cli.run_progress import showing_run
from harness.domain.runs import Phase
from harness.runner.progress import Progress


def test_without_a_terminal_the_run_is_named_once_and_only_changes_are_shown(capsys):
    with showing_run() as sink:
        sink(Progress(run_id="", phase=Phase.PREPARING, elapsed_s=0, message="fetching"))
        for seconds, count in ((1, 0), (2, 0), (3, 1), (70, 1)):
            sink(Progress(run_id="r1", phase=Phase.AGENT, elapsed_s=seconds, submissions=count))
    assert [line.split("  ")[0].strip() for line in capsys.readouterr().err.splitlines()] == [
        "0:00:00 preparing: fetching",
        "run r1",
        "agent",
        "agent",
        "agent",
    ]
