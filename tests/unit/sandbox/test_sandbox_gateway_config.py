"""What a run's gateway is told, and who can read it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from harness.domain.runs import Owner
from harness.errors import PrerequisiteError
from harness.gateway.config import load_config
from harness.home import Home
from harness.sandbox.gateway_service import (
    GatewaySpec,
    UpstreamSpec,
    gateway_config,
    remove_config,
    stage_config,
    url_from_container,
)

OWNER = Owner(pid=1, started_ticks=1, boot_id="b", host="h")
UPSTREAM = UpstreamSpec(provider="openai", url="http://localhost:8000/v1", key=SecretStr("sk-secret"))


def spec(**fields: Any) -> GatewaySpec:
    return GatewaySpec(**{"run_id": "r", "owner": OWNER, "image": "i", "upstream": UPSTREAM, **fields})


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://localhost:8000/v1", "http://host.docker.internal:8000/v1"),
        ("http://127.0.0.1/v1", "http://host.docker.internal/v1"),
        ("https://[::1]:443/v1", "https://host.docker.internal:443/v1"),
        ("http://0.0.0.0:1/v1", "http://host.docker.internal:1/v1"),
        ("http://localhost.example.org/v1", "http://localhost.example.org/v1"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
    ],
)
def test_this_hosts_loopback_is_another_name_in_a_container(url: str, inside: str) -> None:
    assert url_from_container(url) == inside


def test_the_gateway_reads_what_it_is_given(home: Home, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {}")
    folder = stage_config(home, spec(prices=prices))
    config = load_config(folder / "gateway.yaml")
    upstream = config.upstreams["openai"]
    assert upstream.url == "http://host.docker.internal:8000/v1"
    assert upstream.key_file == Path("/etc/gateway/key")
    assert config.prices == folder / "prices.yaml"
    assert (folder / "key").read_text() == "sk-secret"


def test_the_key_is_in_one_file_that_nobody_else_reads(home: Home) -> None:
    one = spec()
    assert "sk-secret" not in json.dumps(gateway_config(one)) + repr(one)
    for _ in range(2):
        folder = stage_config(home, one)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
            "gateway.yaml": 0o400,
            "key": 0o400,
        }
    remove_config(home, "r")
    assert list((home.sockets / "runs").iterdir()) == []
    remove_config(home, "r")


def test_without_a_key_or_a_provider_there_is_none(home: Home) -> None:
    open_server = spec(upstream=UPSTREAM.model_copy(update={"key": SecretStr("")}))
    assert [path.name for path in stage_config(home, open_server).iterdir()] == ["gateway.yaml"]
    assert load_config(stage_config(home, spec(upstream=None)) / "gateway.yaml").upstreams == {}


def test_a_price_table_that_has_gone_is_named(home: Home, tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="price table"):
        stage_config(home, spec(prices=tmp_path / "none.yaml"))
