"""`python dying_grader.py FOLDER`: a grader that is inside an evaluation for ever, to be killed there."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from grader_case import Case


def main(root: Path) -> None:
    case = Case(root)
    agent = case.add_run()
    agent.submit(agent.write("v0", 0.9))
    case.inference.before = threading.Event().wait
    agent.submit_later(agent.write("v1", 0.5))
    agent.submit_later(agent.write("v2", 0.6))
    while agent.submission(2)["state"] != "scoring":
        pass
    Path(root / "agent").write_text(f"{agent.run_id} {agent.token} {agent.address}")
    print("scoring", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
