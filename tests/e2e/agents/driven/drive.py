"""A small command line that is driven by an LLM: asks it what to do, does that, and gives up as such programs do."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from checkpoints import OUTPUT, copy_of_base
from grader import submit

URL, KEY = os.environ["LLM_BASE_URL"], os.environ["LLM_API_KEY"]
DONE = Path("/workspace/code/done")
BACKGROUND = {
    "train": [sys.executable, __file__, "train"],
    "respawn": ["sh", str(Path(__file__).with_name("respawn.sh"))],
}
Orders = list[dict[str, Any]]


class Driven:
    """`is_stubborn`: it goes on whatever it is told, by anybody."""

    def __init__(self) -> None:
        self.said = "What shall I do?"
        self.timeout_s = 300.0
        self.is_stubborn = False

    def run(self) -> None:
        while True:
            try:
                orders = self.ask()
            except (OSError, ValueError) as error:
                # An HTTPError is an OSError, as are broken connections and time-outs.
                print(f"no answer: {error!r}", flush=True)
                if not self.is_stubborn:
                    sys.exit(1)
                time.sleep(0.5)
                continue
            for order in orders:
                print(f"order: {order}", flush=True)
                getattr(self, str(order["do"]))(order)

    def ask(self) -> Orders:
        """The orders in one answer; a stream that ends without its end is an error."""
        body = {"model": os.environ["LLM_MODEL"], "stream": True, "messages": [{"role": "user", "content": self.said}]}
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        request = urllib.request.Request(f"{URL}/chat/completions", json.dumps(body).encode(), headers)
        text = ""
        with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:
            for line in reply:
                word = line.decode().removeprefix("data: ").strip()
                if word == "[DONE]":
                    orders: Orders = json.loads(text)
                    return orders
                if word:
                    choices = json.loads(word)["choices"]
                    text += choices[0]["delta"].get("content", "") if choices else ""
        raise ValueError("the stream was cut")

    def submit(self, order: dict[str, Any]) -> None:
        print(submit(str(copy_of_base(OUTPUT / str(order["name"])))), flush=True)

    def end(self, order: dict[str, Any]) -> None:
        sys.exit(int(order["code"]))

    def end_for_good(self, order: dict[str, Any]) -> None:
        DONE.touch()
        sys.exit(0)

    def talk(self, order: dict[str, Any]) -> None:
        """So many bytes in the next prompt."""
        self.said = "x" * int(order["bytes"])

    def nap(self, order: dict[str, Any]) -> None:
        time.sleep(float(order["seconds"]))

    def patience(self, order: dict[str, Any]) -> None:
        self.timeout_s = float(order["seconds"])

    def stubborn(self, order: dict[str, Any]) -> None:
        self.is_stubborn = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def background(self, order: dict[str, Any]) -> None:
        """Leaves a process of its own behind that does `what`."""
        subprocess.Popen(BACKGROUND[str(order["what"])], start_new_session=True)


def train() -> None:
    """Works for some seconds, then hands in what came of it."""
    end = time.process_time() + 4
    while time.process_time() < end:
        pass
    print(submit(str(copy_of_base(OUTPUT / "trained"))), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["train"]:
        train()
    elif not DONE.exists():
        print(f"part {os.environ['CONTINUATION']}", flush=True)
        Driven().run()
