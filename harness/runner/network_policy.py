"""Which hosts a run may reach under the network policy `allowlist`: presets, and names one by one."""

from __future__ import annotations

from collections.abc import Iterable

from harness.domain.hosts import host_pattern
from harness.domain.specs import NetworkPolicy
from harness.errors import UsageError

MAX_HOSTS = 256
# No `*.huggingface.co` in `hub`: LLMs answer below it. Sources: docs/gateway.md, "Presets".
PRESETS: dict[str, tuple[str, ...]] = {
    "packages": ("pypi.org", "files.pythonhosted.org", "registry.npmjs.org"),
    "hub": (
        "huggingface.co",
        "*.cdn.hf.co",
        "cas-server.xethub.hf.co",
        "cas-server.xethub-eu.hf.co",
        "transfer.xethub.hf.co",
        "transfer.xethub-eu.hf.co",
        "cas-bridge.xethub.hf.co",
        "cdn-lfs.hf.co",
        "cdn-lfs-us-1.hf.co",
        "cdn-lfs-eu-1.hf.co",
    ),
}
HUB_HOST = PRESETS["hub"][0]


def allowed_hosts(names: Iterable[str]) -> tuple[str, ...]:
    """The hosts that `names` stand for, sorted: presets, host names, `*.domain`; each may be several, with commas.

    Raises:
        UsageError: a name is none of these.
    """
    hosts: set[str] = set()
    for name in (part.strip() for text in names for part in text.split(",")):
        if name:
            hosts.update(PRESETS.get(name) or (_host(name),))
    if len(hosts) > MAX_HOSTS:
        raise UsageError(f"{len(hosts)} allowed hosts are more than {MAX_HOSTS}", "Use `*.domain` for many of one.")
    return tuple(sorted(hosts))


def check_network(policy: NetworkPolicy, hosts: tuple[str, ...]) -> None:
    """Refuses a policy and hosts that do not go together.

    Raises:
        UsageError: hosts that would not be reached, or a list without any.
    """
    if policy is NetworkPolicy.ALLOWLIST and not hosts:
        raise UsageError(
            "--network allowlist names no hosts",
            f"Add --allow-host with a host name or one of: {', '.join(sorted(PRESETS))}.",
        )
    if policy is NetworkPolicy.NONE and hosts:
        raise UsageError("--allow-host is for --network allowlist", "Add --network allowlist, or leave the hosts out.")


def _host(name: str) -> str:
    try:
        host = host_pattern(name)
    except ValueError as error:
        raise UsageError(f"--allow-host {name!r} {error}", "Name a host: example.org, or *.example.org.") from None
    if "." not in host:
        raise UsageError(
            f"--allow-host {name!r} is no preset, and a host has a dot in its name",
            f"Presets: {', '.join(sorted(PRESETS))}.",
        )
    return host
