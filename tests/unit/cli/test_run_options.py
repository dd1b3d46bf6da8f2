"""What the options of `harness run` for an agent's LLM, network and continuation become."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import run as run_module
from harness.cli.app import app
from harness.domain.llm import LlmBudget
from harness.domain.specs import NetworkPolicy
from harness.errors import UsageError
from harness.home import Home
from harness.runner.plan import RunDraft, draft
from harness.runner.request import RunRequest
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
Ask = Callable[..., str]


class DryLauncher:
    """Drafts; starts nothing."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.requests: list[RunRequest] = []

    def draft(self, request: RunRequest) -> RunDraft:
        self.requests.append(request)
        return draft(request, self.settings)

    def what_lacks(self, plan_draft: RunDraft) -> str:
        return ""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DryLauncher:
    folder = tmp_path / "agents" / "caller"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: caller\nllm: [openai, gemini]\nmodel: own\n")
    (folder / "start.sh").write_text("true\n")
    settings = Settings(home=tmp_path / "home", root=ROOT, device="cpu").model_copy(
        update={"agents_dir": folder.parent, "openai_api_base": "", "openai_api_key": None, "chat_model": ""}
    )
    found = DryLauncher(settings)

    @contextmanager
    def launching() -> Iterator[tuple[DryLauncher, Home]]:
        yield found, settings.resolved_home()

    monkeypatch.setattr(run_module, "launching", launching)
    return found


def asked(*options: str, agent: str = "caller") -> Any:
    words = ["run", "--agent", agent, "--task", "arithmetic", "--dry-run", *options]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_the_options_are_in_the_request(launcher: DryLauncher, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk")
    asked(
        *("--llm", "https://h/v1", "--llm-model", "m", "--llm-provider", "gemini", "--llm-key-file", str(key)),
        *("--budget-usd", "1.5", "--budget-tokens", "10", "--budget-requests", "3", "--llm-tools", "a,b"),
        *("--network", "allowlist", "--allow-host", "pypi.org", "--allow-host", "*.example.org", "--continue", "30"),
    )
    (request,) = launcher.requests
    assert (request.llm_url, request.llm_model, request.llm_provider) == ("https://h/v1", "m", "gemini")
    assert request.llm_key_file == key
    assert request.llm_budget == LlmBudget(usd=1.5, tokens=10, requests=3)
    assert request.llm_tools == ("a", "b")
    assert request.network is NetworkPolicy.ALLOWLIST
    assert request.allowed_hosts == ("*.example.org", "pypi.org")
    assert request.continue_min_left_s == 1800


def test_a_dry_run_shows_what_would_be_used(launcher: DryLauncher) -> None:
    out = asked("--llm", "http://localhost:8000", "--budget-usd", "2", "--continue", "5").stdout
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "http://localhost:8000/v1 (openai)" in lines["llm"]
    assert lines["llm model"].endswith("its only one: own")
    assert lines["llm key"].endswith("none")
    assert lines["llm budget"].endswith("2.0 USD")
    assert lines["network"].endswith("none")
    assert "5 min" in lines["continue"]


def test_an_agent_without_an_llm_shows_none(launcher: DryLauncher) -> None:
    assert "llm" not in asked(agent="noop").stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--network", "open"), "no network policy open"),
        (("--llm-provider", "azure"), "no provider azure"),
        (("--allow-host", "pypi.org"), "--allow-host is for"),
        (("--allow-host", "127.0.0.1", "--network", "allowlist"), "127.0.0.1"),
    ],
)
def test_words_that_are_not_known_are_refused(launcher: DryLauncher, options: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked(*options)
