"""Allowed hosts: how names are read, what presets stand for, and what a list covers."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.domain.hosts import host_name, host_pattern, is_covered
from harness.domain.specs import NetworkPolicy
from harness.errors import UsageError
from harness.runner.network_policy import PRESETS, allowed_hosts, check_network

LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=2, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("PyPI.org", "pypi.org"),
        ("pypi.org.", "pypi.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
        # An ideographic full stop is a dot to IDNA.
        ("a。org", "a.org"),
        ("1password.com", "1password.com"),
    ],
)
def test_a_name_has_one_spelling(text: str, name: str) -> None:
    assert host_name(text) == name


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "-a.org", "a-.org", "a b.org", "a_b.org", "a.org:443", "user@a.org", "http://a.org", "a.org/x",
     "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "[::1]", "::1", "1.2.3.4.",
     "a\x00.org", "a\n.org", "x" * 64 + ".org", ".".join(["abcdefgh"] * 30), "．．", "\ud800.org"],
)  # fmt: skip
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is "):
        host_name(text)


@given(st.text(max_size=60))
def test_the_one_spelling_is_stable_and_plain(text: str) -> None:
    try:
        name = host_name(text)
    except ValueError:
        return
    assert host_name(name) == name
    assert set(name) <= set(string.ascii_lowercase + string.digits + "-.")


@given(NAME, NAME)
def test_a_plain_name_covers_itself_alone(name: str, other: str) -> None:
    assert is_covered(name, [name])
    assert is_covered(other, [name]) == (other == name)


@given(NAME, LABEL)
def test_a_wildcard_covers_what_is_below_and_nothing_that_looks_like_it(domain: str, label: str) -> None:
    pattern = host_pattern(f"*.{domain}")
    assert is_covered(f"{label}.{domain}", [pattern])
    assert is_covered(f"a.{label}.{domain}", [pattern])
    assert not is_covered(domain, [pattern])
    assert not is_covered(f"{label}{domain}", [pattern])
    assert not is_covered(f"{domain}.{label}.example", [pattern]) or f"{label}.example".endswith(f".{domain}")


@pytest.mark.parametrize("text", ["*", "*.", "*.com", "a.*.org", "**.org", "*example.org", "*.1.2.3.4"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is "):
        host_pattern(text)


def test_presets_and_names_make_one_sorted_list() -> None:
    assert allowed_hosts([]) == ()
    assert allowed_hosts(["packages"]) == tuple(sorted(PRESETS["packages"]))
    assert allowed_hosts(["Example.org, packages", "*.example.com", "example.org"]) == (
        "*.example.com", "example.org", "files.pythonhosted.org", "pypi.org", "registry.npmjs.org")  # fmt: skip


@pytest.mark.parametrize("hosts", PRESETS.values(), ids=PRESETS)
def test_presets_are_in_their_one_spelling(hosts: tuple[str, ...]) -> None:
    assert tuple(host_pattern(host) for host in hosts) == hosts


@pytest.mark.parametrize("name", ["packges", "10.0.0.1", "https://pypi.org", "*.com", "pypi.org:443"])
def test_a_name_that_cannot_be_meant_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as error:
        allowed_hosts([name])
    assert name in error.value.what
    assert error.value.fix


def test_policy_and_hosts_go_together() -> None:
    check_network(NetworkPolicy.NONE, ())
    check_network(NetworkPolicy.ALLOWLIST, ("pypi.org",))
    with pytest.raises(UsageError, match="--allow-host") as error:
        check_network(NetworkPolicy.ALLOWLIST, ())
    assert "packages" in error.value.fix
    with pytest.raises(UsageError, match="--network allowlist"):
        check_network(NetworkPolicy.NONE, ("pypi.org",))
