"""The documents are true: their commands, options, links, paths, settings and queries exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from harness.cli.app import app
from harness.cli.sql import EXAMPLES
from harness.settings import known_names
from harness.store.database import open_writer
from harness.store.query import run_query

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
OPTION = re.compile(r"^--?[a-z][a-z-]*$")
PATH = re.compile(r"^(?:harness|docs|tests|images|scripts|agents|benchmarks)/[\w./-]*$")
ASSIGNMENT = re.compile(r"^[A-Z_]+=")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


each_document = pytest.mark.parametrize("path", DOCS, ids=name_of)


def code_spans(path: Path) -> list[str]:
    """Lines of code blocks and inline code of a document."""
    text = path.read_text(encoding="utf-8")
    lines = [line for _, block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    return lines + INLINE.findall(FENCE.sub("", text))


def commands(path: Path, program: str) -> list[list[str]]:
    """Words of every call of `program` in a document, environment in front of it left out."""
    found = []
    for span in code_spans(path):
        try:
            words = shlex.split(span, comments=True)
        except ValueError:
            continue
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        if len(words) > 1 and Path(words[0]).name == program:
            found.append(words[1:])
    return found


def known_commands() -> dict[str, Any]:
    return get_command(app).commands  # type: ignore[attr-defined,no-any-return]


@each_document
def test_every_harness_command_and_option_exists(path: Path) -> None:
    shared = {option for parameter in get_command(app).params for option in parameter.opts} | {"--help"}
    for words in commands(path, "harness"):
        while words and words[0].startswith("-"):
            assert words[0] in shared, words
            words = words[1:]
        if not words or words[0] == "...":
            continue
        for name in words[0].split("|"):
            assert name in known_commands(), f"harness {' '.join(words)}"
            parameters = known_commands()[name].params
            options = {option for parameter in parameters for option in [*parameter.opts, *parameter.secondary_opts]}
            for word in words[1:]:
                if OPTION.match(word):
                    assert word in options | shared, f"harness {' '.join(words)}"


@each_document
def test_every_make_target_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.M))
    for words in commands(path, "make"):
        for word in words:
            if re.fullmatch(r"[a-z][\w-]*", word):
                assert word in targets, f"make {' '.join(words)}"


@each_document
def test_every_relative_link_resolves(path: Path) -> None:
    for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        if anchor:
            anchors = {
                re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
                for heading in HEADING.findall(file.read_text(encoding="utf-8"))
            }
            assert anchor in anchors, link


@each_document
def test_every_path_in_the_checkout_exists(path: Path) -> None:
    for span in INLINE.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if PATH.match(span):
            assert (ROOT / span).exists(), span


def queries() -> list[str]:
    """Every query that a document or the command line offers."""
    text = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    ready = [block for language, block in FENCE.findall(text) if language == "sql"]
    given = [
        word
        for path in DOCS
        for program in ("harness", "sqlite3")
        for words in commands(path, program)
        for word in words
    ]
    return ready + [word for word in given if word.lower().startswith("select ")] + [query for _, query in EXAMPLES]


def test_every_ready_query_runs_on_an_empty_database(tmp_path: Path) -> None:
    db = open_writer(tmp_path / "harness.db")
    found = queries()
    assert len(found) > 12
    try:
        for query in found:
            assert run_query(db, query).columns
    finally:
        db.close()


def test_every_view_and_table_is_described(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    db = open_writer(tmp_path / "harness.db")
    try:
        names = run_query(
            db, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        )
    finally:
        db.close()
    described = set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    assert {name for (name,) in names.rows} - described <= {"schema_version"}


def test_every_setting_is_described() -> None:
    table = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "operations.md").read_text(encoding="utf-8"), re.M))
    example = set(re.findall(r"^# ([A-Z_]+)=", (ROOT / ".env.example").read_text(encoding="utf-8"), re.M))
    compose = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text(encoding="utf-8")))
    assert table == set(known_names())
    assert example - compose == set(known_names()) - compose


def test_the_readme_leads_to_every_document() -> None:
    links = {link.partition("#")[0] for link in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    documents = {name_of(path) for path in DOCS if path.parent.name == "docs"}
    assert documents <= links


def test_every_listed_agent_with_an_llm_has_a_page() -> None:
    rows = re.findall(
        r"^\| (.*`.*`.*) \| (.*) \| .* \|$", (ROOT / "docs" / "agents.md").read_text(encoding="utf-8"), re.M
    )
    driven = [name for name, protocols in rows if set(protocols.split(", ")) <= {"openai", "anthropic", "gemini"}]
    assert driven
    assert [name for name in driven if not re.fullmatch(r"\[`([a-z-]+)`\]\(agents/\1\.md\)", name)] == []


def test_every_agent_with_a_page_is_in_the_list_of_agents() -> None:
    links = {link.partition("#")[0] for link in LINK.findall((ROOT / "docs" / "agents.md").read_text(encoding="utf-8"))}
    assert {f"agents/{path.name}" for path in (ROOT / "docs" / "agents").glob("*.md")} <= links
