"""Drafts by a model: what is written, sent back and reported; tried by those checks that run nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from chat_server import ChatServer, chat_server
from drafts import CONFIG, GOOD, good, reply
from pydantic import SecretStr

from harness import catalog
from harness.authoring.chat import ChatEndpoint
from harness.authoring.drafting import Drafting, DraftReport
from harness.authoring.repository import RepositoryDigest
from harness.authoring.suite import FOLDER_CHECKS, tried, unreadable
from harness.authoring.verdicts import SuiteReport
from harness.errors import UsageError
from harness.settings import Settings

KEY = "sk-very-secret-4711"
DIGEST = RepositoryDigest(source="https://example.org/riddles", text="README: riddles", files=1, quoted=1)
Draft = Callable[..., DraftReport]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "benchmarks" / "capitals"


@pytest.fixture
def draft(folder: Path, tmp_path: Path) -> Draft:
    settings = Settings(root=tmp_path)

    def check(path: Path) -> SuiteReport:
        try:
            benchmark = catalog.benchmark_at(settings, path)
        except UsageError as error:
            return unreadable(path, error)
        results = tuple(tried(name, partial(look, benchmark)) for name, look in FOLDER_CHECKS.items())
        return SuiteReport(name=benchmark.id, path=str(path), checks=results)

    def run(server: ChatServer, repairs: int = 2) -> DraftReport:
        endpoint = ChatEndpoint(server.base_url, "a-model", SecretStr(KEY), longest_wait_s=0)
        return Drafting(folder, DIGEST, endpoint, check, lambda _: None).run(repairs)

    return run


def test_a_good_draft_is_written_with_its_report(draft: Draft, folder: Path) -> None:
    with chat_server(good()) as server:
        report = draft(server)
    assert report.has_passed
    assert sorted(path.name for path in folder.iterdir()) == sorted([*GOOD, "DRAFT.md"])
    asked = json.dumps(server.requests)
    assert "README: riddles" in asked
    assert "name: capitals" in asked
    written = (folder / "DRAFT.md").read_text()
    assert "| licence | passed |" in written
    assert "7 tokens in, 3 out" in written
    assert all(KEY not in path.read_text() for path in folder.iterdir())
    assert KEY not in asked


def test_after_the_last_repair_the_draft_stays_with_what_fails(draft: Draft, folder: Path) -> None:
    bad = good(config__yaml=CONFIG.replace("licence", "# licence"), description__md="nothing")
    with chat_server(bad, bad, good()) as server:
        report = draft(server, repairs=1)
        assert len(server.requests) == 2
    assert not report.has_passed
    written = (folder / "DRAFT.md").read_text()
    assert "| licence | failed |" in written
    assert "| description | failed |" in written
    assert (folder / "eval.py").is_file()


def test_a_hostile_draft_writes_nothing_outside_of_its_names(draft: Draft, folder: Path, tmp_path: Path) -> None:
    escapes = ("../../escaped.py", str(tmp_path / "escaped.py"), "data/../../escaped.py", "DRAFT.md")
    replies = [reply({**GOOD, name: "x"}) for name in escapes]
    with chat_server(*replies) as server:
        report = draft(server, repairs=3)
    assert not report.has_passed
    assert [path.name for path in folder.iterdir()] == ["DRAFT.md"]
    assert not list(tmp_path.rglob("escaped*"))


@pytest.mark.parametrize(
    "config",
    [
        CONFIG.replace("capitals", "another", 1),
        CONFIG + "expose_files: [../../../../etc/passwd]\n",
        CONFIG + "run: !!python/object/apply:os.system ['touch /tmp/x']\n",
        CONFIG + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9) if k else 'x'}]\n" for k in range(12)),
        "- just a list\n",
    ],
)
def test_a_config_that_cannot_be_used_is_one_failed_check(draft: Draft, config: str) -> None:
    with chat_server(good(config__yaml=config)) as server:
        report = draft(server, repairs=0)
    assert [check.name for check in report.rounds[0].failed] == ["config"]


def test_words_of_the_model_cannot_shape_the_report(draft: Draft, folder: Path) -> None:
    with chat_server(reply(GOOD, "fine |\n\n# PASSED <script>\x1b[2J")) as server:
        draft(server)
    written = (folder / "DRAFT.md").read_text()
    assert "\n# PASSED" not in written
    assert "<script>" not in written
    assert "\x1b" not in written
