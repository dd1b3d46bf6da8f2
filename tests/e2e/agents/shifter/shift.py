"""First attempt: links to the host in the place of every folder and file that the harness lays out, then waits.

Second attempt, after `harness resume`: notes what is there, and hands in an honest checkpoint.
"""

import json
import os
import shutil
import time
from pathlib import Path

from grader import submit

WORKSPACE, MARKER = Path("/workspace"), Path("/workspace/shifted")
TARGETS = json.loads(Path(__file__).with_name("targets.json").read_text())
FOLDERS = ("code", "output", ".home", "models")
FILES = ("description.md", "instructions.md", "run_meta.json")


def shift() -> None:
    met = {}
    for name in (*FOLDERS, *FILES, "data"):
        path = WORKSPACE / name
        try:
            path.rename(WORKSPACE / f"old-{name}")
            path.symlink_to(TARGETS["host"])
            met[name] = "shifted"
        except OSError as error:
            met[name] = str(error)
    (WORKSPACE / "run_meta.json").unlink()
    os.mkfifo(WORKSPACE / "run_meta.json")
    # The names that a harness could move things aside to.
    for name in FOLDERS:
        (WORKSPACE / f"{name}.moved-aside").symlink_to(TARGETS["host"])
    MARKER.write_text(json.dumps(met))
    while True:
        time.sleep(1)


def look() -> None:
    from checkpoints import OUTPUT, changed_base

    kinds = {name: _kind(WORKSPACE / name) for name in (*FOLDERS, "data")}
    links = {name: str((WORKSPACE / name).readlink()) for name in FILES if (WORKSPACE / name).is_symlink()}
    answer = submit(str(changed_base(OUTPUT / "after", 500)))
    report = {
        "kinds": kinds,
        "links": links,
        "model": sorted(path.name for path in Path(os.environ["MODEL_PATH"]).iterdir()),
        "data": sorted(path.name for path in (WORKSPACE / "data").iterdir()),
        "home_is_own": Path.home().stat().st_uid == os.getuid(),
        "meta": json.loads(Path("/run/harness/run_meta.json").read_text()),
        "shifted": json.loads(MARKER.read_text()),
        "answer": answer,
    }
    (WORKSPACE / "code" / "report.json").write_text(json.dumps(report))
    shutil.rmtree(WORKSPACE / "output")


def _kind(path: Path) -> str:
    return "link" if path.is_symlink() else "folder" if path.is_dir() else "other"


if __name__ == "__main__":
    look() if MARKER.exists() else shift()
