"""A run with allowed hosts, on real Docker: what its agent reaches with the proxy and past it, and what is recorded."""

from __future__ import annotations

import json

import pytest

from tests.e2e.live import Harness

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
# A name that never has an address: what the proxy does is seen without the outside.
HOST = "nowhere.invalid"
OPTIONS = ("--limit", "8", "--timeout", "120", "--disk-mb", "100", "--network", "allowlist", "--allow-host", HOST)


def test_an_agent_reaches_its_allowed_hosts_through_the_proxy_and_nothing_past_it(harness: Harness) -> None:
    run = harness.start("reacher", *OPTIONS)
    facts = run.conclude()
    assert facts["ended_by"] == "finished", run.words[-4000:]
    report = json.loads((run.folder.collected / "code" / "report.json").read_text())
    found = report["found"]
    assert found["straight name"] == "gaierror"
    assert found["straight address"] in ("OSError", "TimeoutError")
    assert found["gateway, port 443"] == "ConnectionRefusedError"
    assert found["client, allowed"] == "Tunnel connection failed: 502 nowhere.invalid has no address"
    assert found["client, other"] == "Tunnel connection failed: 403 example.org is not allowed in this run"
    answers = ("client, grader", "allowed", "other port", "address", "grader by proxy", "plain", "no token")
    assert [found[name] for name in answers] == ["200", "502", "403", "403", "403", "405", "407"]
    assert found["wrong token"] == "407"
    assert report["offline"] == "1"

    assert (facts["network"], facts["label"], facts["allowed_hosts"]) == ("allowlist", "open-network", [HOST])
    by_host = {host["host"]: host for host in facts["connections"]}
    assert (by_host[HOST]["failed"], by_host[HOST]["refused"]) == (2, 0)
    refused = {name for name, host in by_host.items() if host["refused"]}
    assert refused == {"example.org", "grader", "1.1.1.1:443", f"{HOST}:80", f"http://{HOST}/"}
    rows = harness.rows(f"SELECT label FROM v_runs WHERE run_id = '{run.run_id}'")
    assert rows == [{"label": "open-network"}]
    assert not run.folder.llm_token.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--network", "allowlist"), "--allow-host"),
        (("--allow-host", "pypi.org"), "--network allowlist"),
        (("--network", "allowlist", "--allow-host", "packges"), "packages"),
    ],
)
def test_policy_and_hosts_that_do_not_go_together_are_refused(
    harness: Harness, options: tuple[str, ...], words: str
) -> None:
    done = harness.call("run", "--agent", "reacher", "--task", "arithmetic", *options)
    assert done.returncode == 2
    assert words in done.stderr
