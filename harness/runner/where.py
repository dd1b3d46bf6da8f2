"""The surroundings of a run's objects: Docker, home, and what the user's settings say of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from harness.home import Home
from harness.sandbox.disk import QuotaMode
from harness.sandbox.engine import DockerClient, EngineInfo


@dataclass(frozen=True)
class LlmSource:
    """What gateways need of the user: `find_key` reads the key at a source, `prices` is a table instead of ours."""

    find_key: Callable[[str], SecretStr]
    prices: Path | None = None


@dataclass(frozen=True)
class Where:
    """What a run's objects need of their surroundings."""

    client: DockerClient
    home: Home
    network_range: str
    quota_mode: QuotaMode
    engine: EngineInfo
    llm_source: LlmSource
    runtime: str = ""
    # Whether hosts that a run is allowed may lead to private addresses.
    has_private_hosts: bool = False
