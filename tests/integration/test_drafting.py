"""A draft that is tried whole: what fails is sent back, and the repaired one passes."""

from __future__ import annotations

from pathlib import Path

from chat_server import chat_server
from drafts import GOOD, good
from process_workshop import ProcessWorkshop

from harness import catalog
from harness.authoring.chat import ChatEndpoint
from harness.authoring.drafting import Drafting
from harness.authoring.repository import RepositoryDigest
from harness.authoring.suite import check_folder
from harness.authoring.verdicts import SuiteReport
from harness.settings import Settings

DIGEST = RepositoryDigest(source="https://example.org/riddles", text="README: riddles", files=1, quoted=1)


def test_what_fails_is_sent_back_and_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "capitals"

    def check(path: Path) -> SuiteReport:
        benchmark = catalog.benchmark_at(Settings(root=tmp_path), path)
        return check_folder(benchmark, None, ProcessWorkshop(tmp_path / "scratch"), lambda _: None)

    bad = good(eval__py="def evaluate(q, a, r, **kwargs):\n    return 1.0\n")
    with chat_server("I would rather not.", bad, good()) as server:
        endpoint = ChatEndpoint(server.base_url, "a-model", longest_wait_s=0)
        report = Drafting(folder, DIGEST, endpoint, check, lambda _: None).run(2)
    assert report.has_passed
    assert [one.failed[0].name for one in report.rounds if one.failed] == ["reply", "floor"]
    complaints = [request["messages"][-1]["content"] for request in server.requests]
    assert "no JSON" in complaints[1]
    assert "scores 100.0, not 0.0" in complaints[2]
    assert [len(request["messages"]) for request in server.requests] == [2, 4, 4]
    assert (folder / "eval.py").read_text() == GOOD["eval.py"]
    assert "| perfect | passed |" in (folder / "DRAFT.md").read_text()
