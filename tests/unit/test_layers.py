"""The import layering of docs/architecture.md, and the house rules that a parser can hold."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "harness"
MAX_LINES = 350

# Imports point to a lower rank, or stay inside the own part.
RANKS = {
    "errors": 0,
    "home": 1,
    "domain": 1,
    "regular_file": 1,
    "settings": 2,
    "config_file": 2,
    "checkpoint": 2,
    "statistics": 2,
    "unix_socket": 1,
    "unix_http": 2,
    "unix_service": 2,
    "hostile_http": 2,
    "executor": 2,
    "trajectory": 2,
    "sandbox": 3,
    "catalog": 3,
    "store": 3,
    "scorer": 3,
    "inference": 3,
    "report": 4,
    "runner": 5,
    "grader": 5,
    "gateway": 5,
    "authoring": 6,
    "cli": 7,
    "__main__": 8,
}
# Third-party packages that one part alone may import.
OWNERS = {
    "docker": {"sandbox"},
    "sqlmodel": {"store"},
    "sqlalchemy": {"store"},
    "sqlite3": {"store"},
    "alembic": {"store"},
    "torch": {"inference"},
    "transformers": {"inference"},
    "scipy": {"statistics"},
    "matplotlib": {"report"},
    "opencompass": {"scorer"},
    "mmengine": {"scorer"},
    "datasets": {"scorer"},
    "typer": {"cli"},
    "rich": {"cli"},
    "fastapi": {"grader", "inference", "scorer", "unix_service"},
    "starlette": {"gateway", "grader", "inference", "scorer", "unix_service"},
    "uvicorn": {"gateway", "grader", "hostile_http", "inference", "scorer", "unix_service"},
    "zstandard": {"gateway"},
}
PURE = {"errors", "home", "domain", "regular_file", "trajectory"}
PURE_THIRD_PARTY = {"pydantic"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """First name below `harness`: `harness/grader/queue.py` -> `grader`; the package itself -> ``."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of every import in a module, also those inside functions."""
    found = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            assert node.module
            if node.module == "harness":
                found += [(node.lineno, f"harness.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, node.module))
    return found


def names_module(dotted: str) -> bool:
    """False for `from harness import __version__`."""
    second = dotted.split(".")[1]
    return (PACKAGE / second).is_dir() or (PACKAGE / f"{second}.py").is_file()


def test_every_part_has_a_rank() -> None:
    parts = {part_of(path) for path in modules()} - {""}
    assert parts <= RANKS.keys()


def test_imports_point_down() -> None:
    wrong = []
    for path in modules():
        part = part_of(path)
        for line, name in imports(path):
            if name.split(".")[0] != "harness" or name == "harness" or not names_module(name):
                continue
            other = name.split(".")[1]
            if other != part and (part == "" or RANKS[other] >= RANKS[part]):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_packages_are_imported_by_their_owners_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules()
        for line, name in imports(path)
        if part_of(path) not in OWNERS.get(name.split(".")[0], {part_of(path)})
    ]
    assert not wrong, "\n".join(wrong)


def test_the_lowest_parts_need_nothing_but_pydantic() -> None:
    import sys

    allowed = sys.stdlib_module_names | PURE_THIRD_PARTY | {"harness"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules()
        if part_of(path) in PURE
        for line, name in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_agents_and_benchmarks_never_import_the_harness() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("agents", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in imports(path)
        if name.split(".")[0] == "harness"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_environment_is_read_in_settings_only() -> None:
    wrong = []
    for path in modules():
        if part_of(path) == "settings":
            continue
        for node in ast.walk(parse(path)):
            is_attribute = isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "putenv")
            is_name = isinstance(node, ast.ImportFrom) and node.module == "os"
            names = {alias.name for alias in node.names} if is_name else set()
            if is_attribute or names & {"environ", "environb", "getenv", "putenv"}:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_prints() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules()
        if part_of(path) != "cli"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    docstring = ast.get_docstring(parse(path))
    assert docstring
    assert docstring.splitlines()[0].rstrip().endswith((".", ":"))
