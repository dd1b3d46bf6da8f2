"""The LLM that drives a run's agent: from options, settings and the agent's folder, and what its server says."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from harness.domain.base import Frozen
from harness.domain.llm import DriverLlm, LlmBudget, ModelList, Provider
from harness.domain.specs import Agent
from harness.errors import PrerequisiteError, UsageError
from harness.runner.keys import KEY_SETTINGS, kept_key, key_source
from harness.runner.request import RunRequest
from harness.sandbox.gateway_service import is_on_host
from harness.settings import Settings

PUBLIC_URLS: Mapping[Provider, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
# What LiteLLM puts before a model's name, and whose protocol it means.
PREFIXES: Mapping[str, Provider] = {
    "openai": "openai",
    "litellm_proxy": "openai",
    "hosted_vllm": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
}
# Ends of URLs that users copy from somewhere; the gateway puts its own path behind what is left.
ENDINGS: Mapping[Provider, tuple[str, ...]] = {
    "openai": ("/chat/completions", "/responses", "/models"),
    "anthropic": ("/messages", "/v1"),
    "gemini": ("/v1beta", "/v1"),
}
PRIVATE_ENDINGS = (".local", ".internal", ".lan", ".home.arpa")
SHOWN_MODELS = 20


class DriverDraft(Frozen):
    """What is known of a driver LLM before its server was asked.

    `names` are taken, in this order, where the server lists them; `unlisted` is taken where it lists none of them.
    """

    provider: Provider
    url: str
    key_from: str = ""
    names: tuple[str, ...] = ()
    unlisted: str = ""
    budget: LlmBudget = LlmBudget()
    tools: tuple[str, ...] = ()

    @property
    def is_public(self) -> bool:
        """Whether it is the provider's own server, which answers nobody without a key."""
        return self.url == PUBLIC_URLS[self.provider]


def draft_driver(request: RunRequest, agent: Agent, settings: Settings) -> DriverDraft | None:
    """What the request means; None for an agent that drives no LLM.

    Raises:
        UsageError: options that the agent has no use for, or that cannot be meant.
    """
    speaks = agent.config.llm
    if not speaks:
        _refuse_options(request, agent)
        return None
    provider = request.llm_provider or speaks[0]
    if provider not in speaks:
        raise UsageError(
            f"agent {agent.id} does not speak {provider}", f"It speaks {', '.join(speaks)}: --llm-provider {speaks[0]}."
        )
    base = settings.openai_api_base if provider == "openai" else ""
    url = _clean_url(provider, request.llm_url or base or PUBLIC_URLS[provider])
    key_from = key_source(provider, request.llm_key_file, settings)
    if key_from and urlsplit(url).scheme == "http" and not _is_near(url):
        raise UsageError(f"the key would go to {urlsplit(url).hostname} in clear text", "Use https.")
    if settings.llm_prices is not None and not settings.llm_prices.expanduser().is_file():
        raise UsageError(f"the price table {settings.llm_prices} is not there", "Set HARNESS_LLM_PRICES right.")
    names, unlisted = _names(provider, request.llm_model, settings.chat_model, agent.config.model)
    return DriverDraft(
        provider=provider,
        url=url,
        key_from=key_from,
        names=names,
        unlisted=unlisted,
        budget=request.llm_budget,
        tools=request.llm_tools,
    )


def require_key(driver: DriverDraft, settings: Settings) -> None:
    """Does nothing where a key is at hand, or none is needed.

    Raises:
        PrerequisiteError: names the file to write.
    """
    if driver.key_from or not driver.is_public:
        return
    raise PrerequisiteError(
        f"there is no key for {driver.url}",
        f"Write it into {kept_key(settings.resolved_home(), driver.provider)}, one line (or set "
        f"{KEY_SETTINGS[driver.provider]}); a server of your own: --llm URL.",
    )


def settled(driver: DriverDraft, answer: ModelList) -> DriverLlm:
    """The driver LLM of a run, from its draft and what its server answered.

    Raises:
        PrerequisiteError: the server cannot be reached, or refuses the key.
        UsageError: no model is named, and there is more than one.
    """
    _require_answer(driver, answer)
    return DriverLlm(
        provider=driver.provider,
        url=driver.url,
        model=_model(driver, answer),
        key_from=driver.key_from,
        budget=driver.budget,
        tools=driver.tools,
    )


def is_unlisted(llm: DriverLlm, answer: ModelList) -> bool:
    """Whether the server has a list of models, and the run's is not in it."""
    return answer.status == "ok" and llm.model not in answer.models


def _require_answer(driver: DriverDraft, answer: ModelList) -> None:
    where = f"the LLM at {driver.url}"
    if answer.status == "unreachable":
        fix = (
            "A run's gateway is a container: the server must listen on more than loopback (0.0.0.0, or the address of "
            "docker0), and a firewall must let it through."
            if is_on_host(driver.url)
            else "Look whether --llm (OPENAI_API_BASE) is right, and whether containers have a network here."
        )
        raise PrerequisiteError(f"{where} cannot be reached: {answer.error}", fix)
    if answer.status == "key_refused":
        key = f"the key of {driver.key_from}" if driver.key_from else "a call without a key"
        fix = f"Put the right one into {driver.key_from or f'a file: --llm-key-file FILE, or keys/{driver.provider}'}."
        raise PrerequisiteError(f"{where} refuses {key}: {answer.error}", fix)
    if answer.status == "failed":
        raise PrerequisiteError(f"{where} does not say which models it has: {answer.error}", "Look whether it is well.")


def _model(driver: DriverDraft, answer: ModelList) -> str:
    listed = next((name for name in driver.names if name in answer.models), "")
    if driver.unlisted and not listed and driver.is_public and answer.status == "ok":
        # Its list is whole, and the name was looked up by itself too: an agent would only run into the same answer.
        raise UsageError(f"{driver.url} knows no model {driver.unlisted}", f"It has {_some(answer)}.")
    if listed or driver.unlisted:
        return listed or driver.unlisted
    if len(answer.models) == 1:
        return answer.models[0]
    if answer.status == "no_such_route":
        raise UsageError(
            f"the LLM at {driver.url} has no list of models ({answer.error})",
            "Name one with --llm-model; or the URL is not the whole one, most end in /v1.",
        )
    raise UsageError(f"which model of {driver.url} drives the agent?", f"Give --llm-model, one of: {_some(answer)}.")


def _some(answer: ModelList) -> str:
    names = ", ".join(answer.models[:SHOWN_MODELS]) or "none"
    return f"{names}, ..." if len(answer.models) > SHOWN_MODELS else names


def _refuse_options(request: RunRequest, agent: Agent) -> None:
    given = {
        "--llm": request.llm_url,
        "--llm-model": request.llm_model,
        "--llm-provider": request.llm_provider,
        "--llm-key-file": request.llm_key_file,
        "--budget-usd, --budget-tokens, --budget-requests": request.llm_budget != LlmBudget(),
        "--llm-tools": request.llm_tools,
    }
    names = ", ".join(name for name, value in given.items() if value)
    if names:
        raise UsageError(f"agent {agent.id} drives no LLM: {names}", "Leave it out, or take another agent.")


def _names(provider: Provider, named: str | None, chat: str, own: str | None) -> tuple[tuple[str, ...], str]:
    """The names to look for, and the one to take where none of them is listed.

    A prefix can be LiteLLM's or a part of the name (`openai/gpt-oss-20b`): the server's list tells. `CHAT_MODEL` may be
    meant for other programs: with the prefix of another provider it does not count, and without one it is OpenAI's.
    """
    if named:
        return (named, _without_prefix(named)), named
    prefix = PREFIXES.get(chat.partition("/")[0]) if "/" in chat else None
    if not chat or prefix not in (None, provider):
        return ((own,) if own else ()), ""
    if prefix is None and provider != "openai":
        return tuple(name for name in (chat, own) if name), ""
    return (chat, _without_prefix(chat)), _without_prefix(chat)


def _without_prefix(name: str) -> str:
    prefix, _, rest = name.partition("/")
    return rest if rest and prefix in PREFIXES else name


def _clean_url(provider: Provider, text: str) -> str:
    """The URL as the gateway takes it: up to the version for OpenAI's protocol, without it for the others."""
    try:
        parts = urlsplit(text.strip())
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_plain = False
    if not is_plain or parts.username or parts.password or parts.query or parts.fragment or not text.isprintable():
        raise UsageError(
            "the LLM's URL is no plain http(s) URL",
            "Give --llm (or OPENAI_API_BASE) as https://host/v1; the key comes from a file.",
        )
    path = parts.path.rstrip("/")
    for ending in ENDINGS[provider]:
        path = path.removesuffix(ending)
    if provider == "openai" and not path:
        path = "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _is_near(url: str) -> bool:
    """Whether the URL's host is this machine or in a network of the user's own."""
    host = urlsplit(url).hostname or ""
    if is_on_host(url):
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(PRIVATE_ENDINGS)
