"""The gateway's configuration: providers, limits, prices. It names where keys are; no key stands in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, SecretStr, ValidationError, model_validator

from harness.domain.base import Frozen
from harness.domain.llm import Provider
from harness.errors import PrerequisiteError, UsageError
from harness.settings import environment_secret

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Bytes = Annotated[int, Field(ge=1024, le=2**40)]
# `private` are other machines of the same network; `any` is also this one.
AddressKind = Literal["public", "private", "any"]
MIB = 2**20


class Upstream(Frozen):
    """One provider: `url` up to the version for OpenAI (`https://api.openai.com/v1`), without it for the others."""

    url: str = Field(pattern=r"^https?://[^\s?#@]+$")
    key_env: str | None = None
    key_file: Path | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Upstream:
        if self.key_env and self.key_file:
            raise ValueError("give key_env or key_file, not both")
        return self

    def key(self) -> SecretStr:
        """The provider's key; empty where none is configured, as for a server of one's own.

        Raises:
            PrerequisiteError: it is not where it should be.
        """
        if self.key_env:
            found = environment_secret(self.key_env)
            if found is None:
                raise PrerequisiteError(f"no key in the environment variable {self.key_env}", "Set it for the gateway.")
            return found
        if self.key_file is None:
            return SecretStr("")
        try:
            text = self.key_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise PrerequisiteError(f"the key file {self.key_file} cannot be read: {type(error).__name__}") from error
        if not text or not text.isprintable() or not text.isascii():
            raise PrerequisiteError(f"the key file {self.key_file} holds no key", "It holds one line: the key.")
        return SecretStr(text)


class Limits(Frozen):
    """What bounds every call."""

    body_bytes: Bytes = Field(16 * MIB, description="one request, unpacked")
    run_bodies_bytes: Bytes = Field(48 * MIB, description="requests of a run under way, as sent and unpacked")
    body_s: Seconds = Field(60, description="until a request has come whole")
    answer_bytes: Bytes = Field(32 * MIB, description="one answer that is not streamed")
    run_answers_bytes: Bytes = Field(96 * MIB, description="such answers of a run under way")
    connect_s: Seconds = 10
    silence_s: Seconds = Field(600, description="without a byte from the provider, the first one included")
    call_s: Seconds = Field(3600, description="one call, all attempts together")
    drain_s: Seconds = Field(3, description="read on for the usage after the agent has gone")
    attempts: int = Field(6, ge=1, le=20)
    retry_after_s: Seconds = Field(30, description="a longer Retry-After goes to the agent")
    retry_s: Seconds = Field(120, description="all waiting between attempts")
    backoff_s: Annotated[float, Field(ge=0, le=60)] = Field(0.5, description="first wait, doubled each time")
    turn_s: Seconds = Field(900, description="for a call that must wait until others have settled")
    waiting: int = Field(256, ge=1, description="calls of one run that may wait for their turn")
    exchange_bytes: Bytes = Field(4 * MIB, description="kept of a request, and of an answer")
    exchanges_bytes: Bytes = Field(512 * MIB, description="kept of all exchanges of a run, compressed")
    refusals: int = Field(1000, ge=0, description="refused calls of one run that get a row")
    rows: int = Field(50_000, ge=1, description="calls of one run in all: each has its line, row and exchange")


class ProxyLimits(Frozen):
    """What bounds the connections of a run through the proxy."""

    port: int = Field(443, ge=1, le=65_535, description="the only one that is reached")
    addresses: AddressKind = Field("public", description="of allowed hosts: private ones too, as of a mirror; any")
    connections: int = Field(128, ge=1, le=4096, description="of a run at a time")
    rows: int = Field(50_000, ge=0, description="connections of a run in all: each has its line")
    refusals: int = Field(1000, ge=0, description="refused requests of a run that get a line")
    head_bytes: Bytes = Field(16 * 2**10, description="one request")
    head_s: Seconds = Field(20, description="until a request has come whole, and again for the ClientHello")
    connect_s: Seconds = Field(15, description="to find a host's addresses, and again to reach one of them")
    idle_s: Seconds = Field(300, description="without a byte in either direction")
    closing_s: Seconds = Field(30, description="the same, once one side has ended")


class GatewayConfig(Frozen):
    """All of it."""

    upstreams: dict[Provider, Upstream] = Field(description="may be empty")
    prices: Path | None = Field(None, description="another price table; relative to this file")
    limits: Limits = Limits()
    proxy: ProxyLimits = ProxyLimits()


def load_config(path: Path) -> GatewayConfig:
    """The configuration at `path`.

    Raises:
        UsageError: it cannot be read, or does not have the form; the message holds no value of it.
    """
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        config = GatewayConfig.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(name) for name in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}", "See docs/gateway.md for the form.") from None
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a configuration: {type(error).__name__}") from None
    if config.prices is None or config.prices.is_absolute():
        return config
    return config.model_copy(update={"prices": path.parent / config.prices})
