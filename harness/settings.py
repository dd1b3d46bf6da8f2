"""Every setting, from defaults, `.env`, and the environment (rising precedence); the only reader of both."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dotenv import dotenv_values
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from harness.errors import UsageError
from harness.home import Home

PREFIX = "HARNESS_"
ENV_FILE = Path(".env")
SECRET_WORDS = ("key", "token", "secret", "password")


class Settings(BaseSettings):
    """Settings of the harness; each is `HARNESS_<NAME>` in the environment unless an alias is given."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=ENV_FILE, extra="ignore", frozen=True)

    home: Path = Field(Path(".harness"), description="everything the harness keeps")
    root: Path = Field(Path(), description="the checkout that holds benchmarks/, agents/ and images/")
    agents_dir: Path | None = Field(None, description="more agent folders, beside those of the checkout")
    smith_bench_dir: Path = Field(
        Path("../rl-smith/benchmarks"),
        validation_alias="SMITH_BENCH_DIR",
        description="published benchmark folders, named smith-<name>",
    )
    autorl_file_path: Path | None = Field(
        None, validation_alias="AUTORL_FILE_PATH", description="where local models and data lie"
    )
    openai_api_key: SecretStr | None = Field(
        None, validation_alias="OPENAI_API_KEY", description="key of the LLM that drives agents or drafts benchmarks"
    )
    openai_api_base: str = Field(
        "", validation_alias="OPENAI_API_BASE", description="its OpenAI-compatible endpoint, ending in /v1"
    )
    chat_model: str = Field("", validation_alias="CHAT_MODEL", description="its name, also as LiteLLM writes it")
    anthropic_api_key: SecretStr | None = Field(
        None, validation_alias="ANTHROPIC_API_KEY", description="key for agents that speak Anthropic's protocol"
    )
    gemini_api_key: SecretStr | None = Field(
        None, validation_alias="GEMINI_API_KEY", description="key for agents that speak Gemini's protocol"
    )
    llm_prices: Path | None = Field(
        None, description="price table (YAML) of LLMs, instead of harness/gateway/prices.yaml"
    )
    base_image: str = Field("", description="base of every image; empty: a registry's Python, or Debian packages")
    network_range: str = Field("10.213.0.0/16", description="run networks are /28s of this range")
    quota: Literal["auto", "loop", "watch"] = Field("auto", description="how the size limit of a workspace is held")
    runtime: str = Field("", description="OCI runtime of agent containers, e.g. runsc; empty: Docker's default")
    private_hosts: bool = Field(
        False, description="allowed hosts of a run may have private addresses, as a mirror of your own has"
    )
    device: Literal["auto", "cpu", "gpu"] = Field("auto", description="what images and runs are built for")
    log_level: str = Field("INFO", description="of messages on stderr, and of the grader's log")

    def resolved_home(self) -> Home:
        """The home as an absolute, link-free path."""
        return Home(self.home.expanduser().resolve())

    def smith_folder(self) -> Path:
        """Where published benchmark folders lie; the default is a neighbour of the checkout, wherever one stands."""
        is_given = "smith_bench_dir" in self.model_fields_set
        return self.smith_bench_dir.expanduser() if is_given else self.root / self.smith_bench_dir


def known_names() -> dict[str, str]:
    """Environment name -> field name, for every setting."""
    names = {}
    for field, info in Settings.model_fields.items():
        alias = info.validation_alias
        names[alias if isinstance(alias, str) else PREFIX + field.upper()] = field
    return names


def load_settings() -> Settings:
    """The settings in force.

    Raises:
        UsageError: an unknown `HARNESS_*` name (with the nearest known one), or a value that does not fit.
    """
    _refuse_unknown(os.environ, "the environment")
    _refuse_unknown(_env_file(), str(ENV_FILE))
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        name = next((known for known, its_field in known_names().items() if field in (known, its_field)), field)
        raise UsageError(
            f"setting {name}: {first['msg']}",
            f"Correct it in the environment or in {ENV_FILE}; docs/operations.md has every setting.",
        ) from error


@dataclass(frozen=True)
class SettingView:
    """One setting as people see it; `value` is masked where it is a secret."""

    name: str
    value: str
    source: str
    description: str


def explain(settings: Settings) -> tuple[SettingView, ...]:
    """Every setting with its value and where that came from: `default`, `.env` or `environment`."""
    in_file, views = _env_file(), []
    for name, field in known_names().items():
        source = "environment" if name in os.environ else str(ENV_FILE) if name in in_file else "default"
        value = getattr(settings, field)
        is_secret = any(word in field for word in SECRET_WORDS)
        text = "" if value is None else "***" if is_secret and value else str(value)
        views.append(SettingView(name, text, source, Settings.model_fields[field].description or ""))
    return tuple(views)


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that the harness starts: its own, with `extra` on top."""
    return {**os.environ, **extra}


def environment_secret(name: str) -> SecretStr | None:
    """The secret that the environment holds under `name`; `None` where it is absent or empty."""
    value = os.environ.get(name, "").strip()
    return SecretStr(value) if value else None


def _env_file() -> dict[str, str | None]:
    return dotenv_values(ENV_FILE) if ENV_FILE.is_file() else {}


def _refuse_unknown(names: Iterable[str], where: str) -> None:
    known = known_names()
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}"
            raise UsageError(f"unknown setting {name} in {where}", hint)
