"""A scripted LLM that speaks four protocols, in a process of its own: what it says it used must be what is metered.

`SCRIPTED_LLM` names its file; without it the one beside the checkout is taken, if there is one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from grader_process import free_port
from served import ROOT, wait_until

SCRIPTED = Path(os.environ.get("SCRIPTED_LLM", ROOT.parent / "shared" / "tools" / "scripted_llm.py"))
needs_scripted_llm = pytest.mark.skipif(
    not SCRIPTED.is_file(), reason=f"no scripted LLM at {SCRIPTED}: set SCRIPTED_LLM"
)
Script = Sequence[Mapping[str, Any]]


@contextmanager
def scripted_llm(folder: Path, scripts: Mapping[str, Script], host: str = "127.0.0.1") -> Iterator[str]:
    """Its URL on this machine; a script is played below `/s/<name>`. `folder` is for its files."""
    port = free_port()
    (folder / "scripts.json").write_text(json.dumps(scripts))
    command = [sys.executable, str(SCRIPTED), "--host", host, "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--scripts", str(folder / "scripts.json")], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return httpx.get(f"{url}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, 30)
        yield url
    finally:
        process.terminate()
        process.wait(20)
