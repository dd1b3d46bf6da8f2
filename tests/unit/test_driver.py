"""The LLM that drives a run's agent: which provider, URL, key and model a request means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from harness.domain.llm import LlmBudget, ModelList
from harness.domain.specs import Agent, AgentConfig
from harness.errors import PrerequisiteError, UsageError
from harness.runner.driver import DriverDraft, draft_driver, is_unlisted, require_key, settled
from harness.runner.request import RunRequest
from harness.settings import Settings

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"


def agent(*speaks: str, model: str | None = None) -> Agent:
    config = AgentConfig.model_validate({"name": "a", "llm": list(speaks), "model": model})
    return Agent(id="a", path=Path(), digest="d", config=config)


def request(**fields: Any) -> RunRequest:
    return RunRequest(agent="a", task="t", **fields)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return set_to(tmp_path)


def set_to(home: Path, **fields: Any) -> Settings:
    return Settings(home=home).model_copy(update={"openai_api_base": "", "chat_model": "", **fields})


def drafted(settings: Settings, who: Agent, **fields: Any) -> DriverDraft:
    found = draft_driver(request(**fields), who, settings)
    assert found is not None
    return found


def says(*models: str, status: str = "ok") -> ModelList:
    return ModelList.model_validate({"provider": "openai", "status": status, "models": models, "error": "404: no"})


def test_an_agent_without_an_llm_has_none(settings: Settings) -> None:
    assert draft_driver(request(), agent(), settings) is None


@pytest.mark.parametrize(
    "given",
    [
        {"llm_url": "http://h/v1"},
        {"llm_model": "m"},
        {"llm_provider": "openai"},
        {"llm_key_file": Path("/k")},
        {"llm_budget": LlmBudget(usd=0)},
        {"llm_tools": ("web_search",)},
    ],
)
def test_an_agent_without_an_llm_takes_no_options_for_one(settings: Settings, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"drives no LLM: --(llm|budget)"):
        draft_driver(request(**given), agent(), settings)


def test_the_first_protocol_of_an_agent_is_the_default(settings: Settings) -> None:
    who = agent("anthropic", "openai")
    assert (drafted(settings, who).provider, drafted(settings, who).url) == ("anthropic", ANTHROPIC)
    assert drafted(settings, who, llm_provider="openai").url == OPENAI
    with pytest.raises(UsageError, match="does not speak gemini"):
        drafted(settings, who, llm_provider="gemini")


@pytest.mark.parametrize(
    ("provider", "given", "url"),
    [
        ("openai", "http://localhost:8000", "http://localhost:8000/v1"),
        ("openai", "http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("openai", "https://h/api/v1/chat/completions", "https://h/api/v1"),
        ("openai", "https://h/v1beta/openai", "https://h/v1beta/openai"),
        ("anthropic", "https://h/v1/messages", "https://h"),
        ("anthropic", "https://h/v1", "https://h"),
        ("gemini", "https://h/v1beta", "https://h"),
        ("openai", "http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_urls_are_taken_as_people_copy_them(settings: Settings, provider: str, given: str, url: str) -> None:
    assert drafted(settings, agent(provider), llm_url=given).url == url


@pytest.mark.parametrize(
    "url",
    [" ", "h/v1", "ftp://h/v1", "http://u:p@h/v1", "http://h/v1?key=s", "http://h/v1#x", "http://h:port", "https://"],
)
def test_what_is_no_url_is_refused(settings: Settings, url: str) -> None:
    with pytest.raises(UsageError, match="no plain http"):
        drafted(settings, agent("openai"), llm_url=url)


def test_openais_settings_are_for_its_protocol_alone(tmp_path: Path) -> None:
    settings = set_to(tmp_path, openai_api_base="https://mine/v1", chat_model="gpt-5")
    assert drafted(settings, agent("openai")).url == "https://mine/v1"
    assert drafted(settings, agent("openai"), llm_url="https://other/v1").url == "https://other/v1"
    assert drafted(settings, agent("anthropic")).url == ANTHROPIC
    assert drafted(settings, agent("anthropic")).unlisted == ""


def test_a_named_key_file_goes_before_the_homes_and_that_before_a_setting(tmp_path: Path) -> None:
    settings = set_to(tmp_path, openai_api_key=SecretStr("sk-setting"))
    assert drafted(settings, agent("openai")).key_from == "OPENAI_API_KEY"
    kept = tmp_path / "keys" / "openai"
    kept.parent.mkdir()
    kept.write_text("sk-kept")
    assert drafted(settings, agent("openai")).key_from == str(kept)
    assert drafted(settings, agent("anthropic")).key_from == ""
    named = tmp_path / "named"
    with pytest.raises(UsageError, match="is not there"):
        drafted(settings, agent("openai"), llm_key_file=named)
    with pytest.raises(UsageError) as refused:
        drafted(settings, agent("openai"), llm_key_file=tmp_path / "sk-a-key-in-the-place-of-its-file")
    assert "sk-a-key" not in str(refused.value)
    named.write_text("sk-named")
    assert drafted(settings, agent("openai"), llm_key_file=named).key_from == str(named)


def test_the_providers_own_server_needs_a_key_and_the_error_names_the_file(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(PrerequisiteError, match="no key") as caught:
        require_key(drafted(settings, agent("anthropic")), settings)
    assert f"{tmp_path}/keys/anthropic, one line" in caught.value.fix
    assert "ANTHROPIC_API_KEY" in caught.value.fix
    require_key(drafted(settings, agent("openai"), llm_url="http://localhost:8000"), settings)


@pytest.mark.parametrize(
    ("url", "is_near"),
    [
        ("http://localhost:8000/v1", True),
        ("http://10.0.0.7:8000/v1", True),
        ("http://gpu-box:8000/v1", True),
        ("http://llm.lan/v1", True),
        ("http://api.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://api.example.com/v1", True),
    ],
)
def test_a_key_does_not_cross_the_internet_in_clear_text(tmp_path: Path, url: str, is_near: bool) -> None:
    settings = set_to(tmp_path, openai_api_key=SecretStr("sk-setting"))
    if is_near:
        assert drafted(settings, agent("openai"), llm_url=url).url == url
        return
    with pytest.raises(UsageError, match="clear text"):
        drafted(settings, agent("openai"), llm_url=url)
    assert drafted(set_to(tmp_path), agent("openai"), llm_url=url).key_from == ""


@pytest.mark.parametrize(
    ("named", "chat", "own", "listed", "model"),
    [
        ("m", "c", "o", ("m", "c", "o"), "m"),
        ("m", "c", "o", ("c", "o"), "m"),
        (None, "c", "o", ("c", "o"), "c"),
        (None, "c", "o", ("o", "x"), "c"),
        (None, "openai/gpt-5", "o", ("gpt-5", "o"), "gpt-5"),
        (None, "openai/gpt-oss-20b", None, ("openai/gpt-oss-20b",), "openai/gpt-oss-20b"),
        (None, "openai/openai/gpt-oss-20b", None, ("openai/gpt-oss-20b", "x"), "openai/gpt-oss-20b"),
        ("openai/gpt-5", "", None, ("gpt-5", "x"), "gpt-5"),
        ("openai/gpt-5", "", None, ("y", "x"), "openai/gpt-5"),
        (None, "anthropic/claude", "o", ("o", "x"), "o"),
        (None, "meta/llama", "o", ("o", "x"), "meta/llama"),
        (None, "", "o", ("o", "x"), "o"),
        (None, "", "o", ("x",), "x"),
        (None, "", None, ("x",), "x"),
    ],
)
def test_the_model_is_the_first_that_is_named_and_there(
    tmp_path: Path, named: str | None, chat: str, own: str | None, listed: tuple[str, ...], model: str
) -> None:
    settings = set_to(tmp_path, chat_model=chat, openai_api_base="https://mine/v1")
    found = settled(drafted(settings, agent("openai", model=own), llm_model=named), says(*listed))
    assert found.model == model
    assert is_unlisted(found, says(*listed)) is (model not in listed)


def test_a_name_without_a_provider_is_another_providers_only_where_that_lists_it(tmp_path: Path) -> None:
    settings = set_to(tmp_path, chat_model="claude-x")
    who = agent("anthropic", model="claude-own")
    assert settled(drafted(settings, who), says("claude-own", "claude-x")).model == "claude-x"
    settings = set_to(tmp_path, chat_model="gpt-5")
    assert settled(drafted(settings, who), says("claude-own", "claude-y")).model == "claude-own"


def test_of_several_models_none_is_guessed(settings: Settings) -> None:
    with pytest.raises(UsageError, match="which model") as caught:
        settled(drafted(settings, agent("openai", model="gone")), says("x", "y"))
    assert "--llm-model, one of: x, y." in caught.value.fix
    with pytest.raises(UsageError, match="has no list of models") as caught:
        settled(drafted(settings, agent("openai", model="own")), says(status="no_such_route"))
    assert "/v1" in caught.value.fix
    found = settled(drafted(settings, agent("openai"), llm_model="m"), says(status="no_such_route"))
    assert (found.model, is_unlisted(found, says(status="no_such_route"))) == ("m", False)


def test_what_the_server_answers_is_told_with_what_to_do(settings: Settings) -> None:
    here = drafted(settings, agent("openai"), llm_url="http://localhost:8000")
    with pytest.raises(PrerequisiteError, match="cannot be reached") as caught:
        settled(here, says(status="unreachable"))
    assert "more than loopback" in caught.value.fix
    elsewhere = drafted(settings, agent("openai"), llm_url="https://h/v1", llm_model="m")
    with pytest.raises(PrerequisiteError, match="cannot be reached") as caught:
        settled(elsewhere, says(status="unreachable"))
    assert "--llm" in caught.value.fix
    with pytest.raises(PrerequisiteError, match="refuses a call without a key") as caught:
        settled(elsewhere, says(status="key_refused"))
    assert "--llm-key-file" in caught.value.fix
    with pytest.raises(PrerequisiteError, match="does not say which models"):
        settled(elsewhere, says(status="failed"))


def test_budget_and_tools_are_the_requests(settings: Settings) -> None:
    budget = LlmBudget(usd=1.5, requests=3)
    draft = drafted(settings, agent("openai"), llm_model="m", llm_budget=budget, llm_tools=("web_search",))
    found = settled(draft, says("m"))
    assert (found.budget, found.tools, found.provider) == (budget, ("web_search",), "openai")


def test_a_name_that_the_providers_own_server_does_not_know_is_a_slip(settings: Settings) -> None:
    draft = drafted(settings, agent("openai"), llm_model="gtp-5")
    with pytest.raises(UsageError, match="knows no model gtp-5") as caught:
        settled(draft, says("gpt-5", "o3"))
    assert "gpt-5, o3" in caught.value.fix
