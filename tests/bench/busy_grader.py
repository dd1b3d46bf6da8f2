"""`python busy_grader.py FOLDER`: a grader with 60 blocked requests that scores one model after the other."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grader_case import AgentSide, Case
from served import wait_until

from harness.grader.__main__ import SWITCH_INTERVAL_S

RUNS, BLOCKED = 10, 6


def block(agent: AgentSide) -> None:
    for n in range(BLOCKED):
        path = agent.write(f"v{n}", n / 10)
        threading.Thread(target=agent.submit, args=(path,), daemon=True).start()
    wait_until(lambda: agent.client.get("health").json()["queue_length"] == BLOCKED)


def main(root: Path) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    case = Case(root)
    busy, others = case.add_run(), [case.add_run() for _ in range(RUNS)]
    case.without_services.update(agent.run_id for agent in others)
    for agent in others:
        block(agent)
    print(json.dumps({"port": case.port, "runs": [[a.token, a.address] for a in [busy, *others]]}), flush=True)
    for n in itertools.count():
        busy.submit(busy.write(f"v{n}", n % 1000 / 1000))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
