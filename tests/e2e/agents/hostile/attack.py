"""Tries everything, notes what it met, and hands in an honest checkpoint after each attempt that is handed in.

`targets.json` beside it says where things are that an attacker could have learnt. The notes are `code/report.json`.
"""

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import forgeries
import http_attacks
import network
import places
from checkpoints import OUTPUT, changed_base, copy_of_base
from grader import Answer, call, submit, validate
from races import RACES
from submissions import PATHS, SUBMITTED, VALIDATED

REPORT = Path("/workspace/code/report.json")
TARGETS = json.loads(Path(__file__).with_name("targets.json").read_text())
Attempt = Callable[[Answer], Answer]

report: dict[str, Answer] = {}
honest_scored = 0


def note(name: str, attempt: Attempt) -> None:
    """One attempt, and whether the grader answers afterwards."""
    begin = time.monotonic()
    try:
        answer = attempt(TARGETS)
    except Exception:  # noqa: BLE001 - whatever broke belongs into the report
        answer = {"broken": traceback.format_exc()}
    answer["took"] = round(time.monotonic() - begin, 2)
    answer["health"] = call("GET", "/health")["status"]
    report[name] = answer
    print(f"{name}: {answer.get('status', '')} {answer['took']} s", flush=True)
    REPORT.write_text(json.dumps(report))


def hand_in(name: str, attempt: Attempt) -> None:
    """An attempt with a checkpoint: the next honest one, whose score is known already, must be answered with it."""
    note(name, attempt)
    report[name]["honest"] = submit("output/honest")


def score_anew() -> None:
    """An honest checkpoint whose score nobody knows yet."""
    global honest_scored
    honest_scored += 1
    number = honest_scored
    note(f"honest_{number}", lambda _: submit(str(changed_base(OUTPUT / f"honest_{number}", number))))


def try_places() -> None:
    models, data = Path("/workspace/models"), Path("/workspace/data")
    model = next(path.parent for path in models.rglob("config.json"))
    note("write_model", lambda _: places.write_into(model))
    note("write_train_data", lambda _: places.write_into(data))
    note("write_task_files", lambda _: places.write_into(Path("/run/harness")))
    note("write_own_folder", lambda _: places.write_into(places.OWN_FOLDER))
    for attempt in (places.open_hidden_paths, places.search_hidden_texts, places.fetch_hidden_urls):
        note(attempt.__name__, attempt)


def try_network() -> None:
    attempts: tuple[Attempt, ...] = (
        network.reach_gateway,
        network.reach_docker0,
        network.reach_host,
        network.reach_outside,
        network.reach_other_run,
        network.reach_by_source_route,
        network.change_routes,
        network.resolve_names,
        network.scan_grader,
        network.call_admin_routes,
        network.use_other_token,
    )
    for attempt in attempts:
        note(attempt.__name__, attempt)


def try_submissions() -> None:
    for name, path in PATHS.items():
        hand_in(name, lambda _, path=path: call("POST", "/submit", {"model_path": path}))
    for build, ask in [(build, submit) for build in SUBMITTED] + [(build, validate) for build in VALIDATED]:
        folder = OUTPUT / build.__name__
        build(folder)
        hand_in(build.__name__, lambda _, ask=ask, folder=folder: ask(str(folder)))
    (OUTPUT / "to_root").symlink_to("/")
    hand_in("symlink_on_the_way", lambda _: submit("output/to_root/var/lib/harness/eval"))


def main() -> None:
    copy_of_base(OUTPUT / "honest")
    score_anew()
    try_places()
    try_network()
    for attempt in http_attacks.REQUESTS:
        hand_in(attempt.__name__, attempt)
    note("slow_connections", http_attacks.slow_connections)
    note("many_requests", http_attacks.many_requests)
    score_anew()
    try_submissions()
    score_anew()
    for attempt in RACES:
        hand_in(attempt.__name__, attempt)
    score_anew()
    hand_in("forge_time", forgeries.forge_time)
    hand_in("forge_scores", forgeries.forge_scores)
    note("links_for_the_collector", places.links_for_the_collector)
    score_anew()
    report["submissions"] = call("GET", "/submissions")
    report["end"] = {"reached": True}
    REPORT.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
