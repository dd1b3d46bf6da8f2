"""Options of `harness run` for what an agent reaches (LLM, budget, hosts), and for taking it up after an early end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.runner.plan import RunDraft
    from harness.runner.request import RunRequest

Llm = Annotated[str | None, typer.Option("--llm", metavar="URL", help="LLM of the agent; default: its provider's own.")]
LlmModel = Annotated[
    str | None, typer.Option(help="Its name; default: CHAT_MODEL, the agent's, the server's only one.")
]
LlmProvider = Annotated[
    str | None, typer.Option(help="openai, anthropic or gemini: its protocol; default: the agent's first.")
]
LlmKeyFile = Annotated[
    Path | None, typer.Option(help="File with its key; default: keys/<provider> of the home, then settings.")
]
BudgetUsd = Annotated[float | None, typer.Option(min=0, help="USD that the run may spend on it.")]
BudgetTokens = Annotated[int | None, typer.Option(min=0, help="Tokens, read and written together.")]
BudgetRequests = Annotated[int | None, typer.Option(min=0, help="Calls.")]
LlmTools = Annotated[str, typer.Option(help="Tools at the provider that the run may use, by type, comma-separated.")]
Network = Annotated[str, typer.Option(help="none, or allowlist: the hosts of --allow-host besides.")]
AllowHost = Annotated[
    list[str], typer.Option(help="Host, *.domain or preset that the agent may reach; may be repeated.")
]
Continue = Annotated[
    int | None,
    typer.Option("--continue", min=1, metavar="MINUTES", help="Take an agent up again that ends with more time left."),
]


def request_with(request: RunRequest, **given: Any) -> RunRequest:
    """`request` with these options, by the names of `RunRequest`. Raises UsageError for a word that is not known."""
    from harness.cli.choices import network_of, provider_of
    from harness.runner.network_policy import allowed_hosts

    given["llm_provider"] = provider_of(given["llm_provider"])
    given["network"] = network_of(given["network"])
    given["allowed_hosts"] = allowed_hosts(given["allowed_hosts"])
    key_file = given["llm_key_file"]
    given["llm_key_file"] = key_file.absolute() if key_file else None
    return request.model_copy(update=given)


def shown_reach(draft: RunDraft) -> dict[str, object]:
    """What a dry run tells of an agent's LLM, network and continuation."""
    request, llm = draft.request, draft.llm
    facts: dict[str, object] = {}
    if llm is not None:
        named = llm.unlisted or "the first of these that it lists, or its only one: " + ", ".join(llm.names)
        facts |= {
            "llm": f"{llm.url} ({llm.provider})",
            "llm model": named if llm.names else "the server's only one",
            "llm key": llm.key_from or "none",
            "llm budget": _budget(draft) or "no limit",
            "llm tools": ", ".join(llm.tools) or "none at the provider",
        }
    facts["network"] = request.network.value + (
        f": {', '.join(request.allowed_hosts)}" if request.allowed_hosts else ""
    )
    left_s = request.continue_min_left_s
    facts["continue"] = "no" if left_s is None else f"while more than {left_s // 60} min are left"
    return facts


def _budget(draft: RunDraft) -> str:
    budget = draft.request.llm_budget.model_dump(exclude_none=True)
    return ", ".join(f"{value} {name.replace('usd', 'USD')}" for name, value in budget.items())
