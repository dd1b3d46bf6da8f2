"""What the agent is told in each stage of an iteration, and how its verdict is read."""

from __future__ import annotations

import json
from typing import Any

from journal import Entry, Journal

DONE = "DONE"

_CODE = """\
{task}

# How you work in this run

You are one stage of a pipeline, and this is iteration {iteration} of at most {iterations}. What is said here comes
before what is said above. In this turn you write the training script `code/train.py`, and end your turn.

- When your turn has ended, the pipeline runs `{command}` in the workspace, for {time} at most,
  and submits the checkpoint below `output/` that was saved last. So do not train or submit yourself, and never wait.
- Look around first: the task's files, the data, the base model, earlier scripts. Short checks of your code are welcome.
- The script takes no arguments. It saves the model with its tokenizer to `output/iteration_{iteration:02d}`
  (`save_pretrained`, safetensors, adapters merged; a trainer's own checkpoints are refused). At the time limit it is
  stopped, and what it has saved by then is submitted: let it look at the clock, and save in time.
- It prints what helps you to judge the training afterwards: sizes, losses, rewards. You see the end of its log.

# What was done before

{history}
"""

_FIX = """\
The training did not work: {outcome}. The end of its log:

```
{log}
```

Correct `code/train.py` and end your turn; the pipeline runs it again, for {time} at most.
"""

_ANALYSIS = """\
Iteration {iteration} is over. The training: {outcome}. The grader on `{checkpoint}`:

```
{reply}
```

The end of the training's log:

```
{log}
```

{time} are left. Write no code now. Answer with a short analysis, which goes into `summary.md`: what was
tried, what score and log say about it, and what the next iteration should do. If you are sure that another iteration
would gain nothing, make the last line `DONE`.
"""


def code_turn(task: str, journal: Journal, iterations: int, command: str, training_s: float) -> str:
    """The first message of an iteration."""
    return _CODE.format(
        task=task.strip(),
        iteration=journal.next_iteration,
        iterations=iterations,
        command=command,
        time=_time(training_s),
        history=history(journal),
    )


def fix_turn(outcome: str, log: str, training_s: float) -> str:
    """After a training that failed, or saved nothing."""
    return _FIX.format(outcome=outcome, log=log, time=_time(training_s))


def analysis_turn(entry: Entry, reply: dict[str, Any], log: str, remaining_s: float) -> str:
    """After the score."""
    return _ANALYSIS.format(
        iteration=entry.iteration,
        outcome=entry.training,
        checkpoint=entry.checkpoint,
        reply=json.dumps(reply, indent=1),
        log=log,
        time=_time(remaining_s),
    )


def history(journal: Journal) -> str:
    """Every earlier iteration in a line, and the last analysis in full."""
    if not journal.entries:
        return "There was no iteration before this one."
    lines = [f"- {entry.line()}" for entry in journal.entries]
    best = journal.best()
    if best is not None:
        lines.append(f"\nThe best is iteration {best.iteration}, with {best.score}.")
    last = journal.entries[-1]
    return "\n".join(
        [
            *lines,
            "\nThe scripts and logs of all are in `pipeline/`, all analyses in `summary.md`. The last analysis:\n",
            last.analysis or "(none)",
        ]
    )


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 600 else f"{seconds:.0f} seconds"


def is_done(analysis: str) -> bool:
    """Whether the agent's last line says that it is."""
    lines = analysis.strip().splitlines()
    return bool(lines) and lines[-1].strip(" `*.#") == DONE
