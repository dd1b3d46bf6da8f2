"""Options that are one of a few words; what is not is told which there are."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from harness.domain.llm import Provider
    from harness.domain.specs import EvalMode, NetworkPolicy, Protocol

Choice = TypeVar("Choice", bound=StrEnum)


def protocol_of(name: str) -> Protocol:
    """The protocol called `name`. Raises UsageError."""
    from harness.domain.specs import Protocol

    return _chosen(Protocol, name, "protocol")


def eval_mode_of(name: str | None) -> EvalMode | None:
    """The mode called `name`; None without one. Raises UsageError."""
    from harness.domain.specs import EvalMode

    return None if name is None else _chosen(EvalMode, name, "eval_mode")


def network_of(name: str) -> NetworkPolicy:
    """The network policy called `name`. Raises UsageError."""
    from harness.domain.specs import NetworkPolicy

    return _chosen(NetworkPolicy, name, "network policy")


def provider_of(name: str | None) -> Provider | None:
    """The provider called `name`; None without one. Raises UsageError."""
    from harness.domain.llm import PROVIDERS
    from harness.errors import UsageError

    if name is None:
        return None
    for provider in PROVIDERS:
        if provider == name:
            return provider
    raise UsageError(f"no provider {name}", f"Known: {', '.join(PROVIDERS)}.")


def _chosen(kind: type[Choice], name: str, what: str) -> Choice:
    from harness.errors import UsageError

    if name not in list(kind):
        raise UsageError(f"no {what} {name}", f"Known: {', '.join(kind)}.")
    return kind(name)
