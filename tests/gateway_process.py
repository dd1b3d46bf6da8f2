"""The gateway as it runs: its own process with a configuration, started, killed and started again."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import yaml
from grader_process import free_port
from llm_upstream import KEY
from served import ROOT, wait_until

from harness.domain.connections import Connection
from harness.domain.llm import LlmBudget, LlmCall, LlmEvent, LlmRun, LlmUsage
from harness.errors import ServiceUnavailable
from harness.unix_http import Reply, UnixHttp

TOKEN = "run-token-0123456789abcdefghij"
PRICES = {
    "models": {
        "ok": {"input": 1.0, "cached": 0.1, "cache_write": 1.25, "output": 10.0, "max_output_tokens": 1000},
        "dear": {"input": 100.0, "cached": 10.0, "output": 1000.0, "max_output_tokens": 1000},
    }
}


class GatewayProcess:
    """`python -m harness.gateway` for one provider URL, or none; everything of it is in `folder`."""

    def __init__(self, folder: Path, url: str | None, proxy: dict[str, Any] | None = None, **limits: Any) -> None:
        self.folder, self.port, self.proxy_port = folder, free_port(), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self.state, self.socket, self.log = folder / "state", folder / "g.sock", folder / "gateway.log"
        self.base = f"http://127.0.0.1:{self.port}"
        self.admin = UnixHttp(self.socket, "gateway")
        (folder / "key").write_text(KEY + "\n")
        (folder / "prices.yaml").write_text(yaml.safe_dump(PRICES))
        upstreams = {
            "openai": {"url": f"{url}/v1", "key_file": str(folder / "key")},
            "anthropic": {"url": url, "key_env": "TEST_PROVIDER_KEY"},
            "gemini": {"url": url, "key_env": "TEST_PROVIDER_KEY"},
        }
        config = {
            "upstreams": upstreams if url is not None else {},
            "prices": "prices.yaml",
            "limits": {"backoff_s": 0.05, **limits},
            "proxy": proxy or {},
        }
        (folder / "gateway.yaml").write_text(yaml.safe_dump(config))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.spawn()
        wait_until(self._answers, 30)

    def spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "harness.gateway", "--config", str(self.folder / "gateway.yaml")]
        command += [
            "--state",
            str(self.state),
            "--admin",
            str(self.socket),
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--proxy-port",
            str(self.proxy_port),
        ]
        environment = {**os.environ, "TEST_PROVIDER_KEY": KEY, "http_proxy": "http://127.0.0.1:9"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)
        return self.process

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.admin.request("GET", "/health", 5).status == 200
        except (ServiceUnavailable, FileNotFoundError):
            return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(30)

    def open_run(self, run_id: str = "r1", token: str = TOKEN, **fields: Any) -> Reply:
        fields = {"subnets": ("127.0.0.0/8",), "budget": LlmBudget(), **fields}
        digest = hashlib.sha256(token.encode()).hexdigest()
        return self.admin.request("POST", "/runs", 10, LlmRun(run_id=run_id, token_sha256=digest, **fields))

    def close_run(self, run_id: str = "r1") -> Reply:
        return self.admin.request("POST", f"/runs/{run_id}/close", 10)

    def usage(self, run_id: str = "r1") -> LlmUsage:
        return LlmUsage.model_validate_json(self.admin.request("GET", f"/runs/{run_id}/usage", 10).body)

    def calls(self, run_id: str = "r1", skip: int = 0) -> list[LlmCall]:
        reply = self.admin.request("GET", f"/runs/{run_id}/calls?skip={skip}", 10)
        return [LlmCall.model_validate(row) for row in json.loads(reply.body)]

    def connections(self, run_id: str = "r1", skip: int = 0) -> list[Connection]:
        reply = self.admin.request("GET", f"/runs/{run_id}/connections?skip={skip}", 10)
        return [Connection.model_validate(row) for row in json.loads(reply.body)]

    def events(self, after: int = 0) -> list[LlmEvent]:
        reply = self.admin.request("GET", f"/events?after={after}", 10)
        return [LlmEvent.model_validate(row) for row in json.loads(reply.body)]

    def exchange(self, call: LlmCall) -> dict[str, Any]:
        path = self.state / "runs" / call.run_id / "exchanges" / str(call.detail["exchange"])
        wait_until(path.exists, 10)
        value: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        return value

    def client(self, token: str = TOKEN, timeout_s: float = 30) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.base, headers=headers, timeout=timeout_s, trust_env=False)

    def kept_bytes(self) -> bytes:
        """Everything that the gateway wrote, unpacked."""
        files = [path for path in self.state.rglob("*") if path.is_file()]
        packed = (gzip.decompress(path.read_bytes()) for path in files if path.suffix == ".gz")
        return b"".join([*packed, *(p.read_bytes() for p in files if p.suffix != ".gz"), self.log.read_bytes()])
