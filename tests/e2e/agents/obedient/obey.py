"""Waits for orders in files, one after the other, and notes the answer to each; also after it was started again."""

import itertools
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from checkpoints import OUTPUT, copy_of_base, read_weights, set_float, write_weights
from grader import call, submit

ORDERS, ANSWERS = Path("/workspace/code/orders"), Path("/workspace/code/answers")
LITTER = Path("/workspace/code/litter")
POLL_S = 0.05
TRIES, PAUSE_S = 60, 0.5
WEIGHT = 0.0123


def hand_in(weight: int) -> dict[str, Any]:
    """Submits the base model with one number changed, as soon as the grader answers at all."""
    folder = copy_of_base(OUTPUT / f"v{weight}")
    header, data = read_weights()
    set_float(header, data, weight, WEIGHT)
    write_weights(folder, header, bytes(data))
    for _ in range(TRIES):
        answer = submit(str(folder))
        if not is_told_to_try_again(answer):
            break
        time.sleep(PAUSE_S)
    return answer


def is_told_to_try_again(answer: dict[str, Any]) -> bool:
    """A grader that has just come back sees the workspace a moment later; it took nothing and says so."""
    return answer["status"] == 503 and "does not see" in answer["body"]["error"]


def litter(count: int) -> dict[str, Any]:
    """So many small files, which take a while to collect."""
    LITTER.mkdir()
    for number in range(count):
        (LITTER / f"{number}.txt").write_text(str(number))
    return {}


def turn_deaf(_: object) -> dict[str, Any]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return {}


def obey(number: int, order: dict[str, Any]) -> None:
    (name, argument), *_ = order.items()
    does = {"submit": hand_in, "litter": litter, "deaf": turn_deaf, "get": lambda path: call("GET", path)}
    answer = does[name](argument)
    stage = ANSWERS / f".{number}"
    stage.write_text(json.dumps(answer))
    stage.replace(ANSWERS / f"{number}.json")


def main() -> None:
    for folder in (ORDERS, ANSWERS):
        folder.mkdir(mode=0o777, exist_ok=True)
    done = len(list(ORDERS.glob("*.taken")))
    print(f"at your orders from {done} on", flush=True)
    for number in itertools.count(done):
        while not (ORDERS / f"{number}.json").exists():
            time.sleep(POLL_S)
        order = json.loads((ORDERS / f"{number}.json").read_text())
        (ORDERS / f"{number}.taken").touch()
        print(f"order {number}: {order}", flush=True)
        if "end" in order:
            os._exit(order["end"])
        if "deaf" in order:
            obey(number, order)
        else:
            threading.Thread(target=obey, args=(number, order), daemon=True).start()


if __name__ == "__main__":
    main()
