"""What can be run: the benchmark and agent folders, found by name and read only when asked for."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from harness.domain.specs import NAME_PATTERN, Agent, AgentConfig, Benchmark, BenchmarkConfig
from harness.errors import UsageError
from harness.settings import Settings

CONFIG_NAME = "config.yaml"
SMITH_PREFIX = "smith-"
CACHE_FOLDERS = frozenset({"__pycache__"})

Config = TypeVar("Config", bound=BaseModel)


def list_benchmarks(settings: Settings) -> list[Benchmark]:
    """Every benchmark, ours first, each in order of its id.

    Raises:
        UsageError: one of our own folders has a bad config. A published folder that cannot be used is left out.
    """
    own = [_own_benchmark(folder) for folder in _folders(_benchmark_root(settings))]
    return own + [found for folder in _folders(settings.smith_bench_dir) if (found := _usable_smith(folder))]


def find_benchmark(settings: Settings, benchmark_id: str) -> Benchmark:
    """The benchmark called `benchmark_id`; no other folder's config is read.

    Raises:
        UsageError: there is no such folder (says the nearest names), or its config is bad (says file and key).
    """
    folder = _benchmark_root(settings) / benchmark_id
    if _is_folder_name(benchmark_id) and (folder / CONFIG_NAME).is_file():
        return _own_benchmark(folder)
    if benchmark_id.startswith(SMITH_PREFIX):
        for folder in _smith_candidates(settings, benchmark_id):
            return _smith_benchmark(folder)
    raise _unknown("benchmark", benchmark_id, benchmark_names(settings), _benchmark_root(settings))


def benchmark_names(settings: Settings) -> list[str]:
    """The ids of all benchmark folders, told by their folder names alone."""
    own = [folder.name for folder in _folders(_benchmark_root(settings))]
    return own + [SMITH_PREFIX + folder.name for folder in _folders(settings.smith_bench_dir)]


def list_agents(settings: Settings) -> list[Agent]:
    """Every agent, in order of its id."""
    return [_agent(folder) for folder in _agent_folders(settings)]


def find_agent(settings: Settings, agent_id: str) -> Agent:
    """The agent called `agent_id`; no other folder's config is read.

    Raises:
        UsageError: there is no such folder (says the nearest names), or its config is bad (says file and key).
    """
    for root in _agent_roots(settings):
        if _is_folder_name(agent_id) and (root / agent_id / CONFIG_NAME).is_file():
            return _agent(root / agent_id)
    raise _unknown("agent", agent_id, agent_names(settings), _agent_roots(settings)[0])


def agent_names(settings: Settings) -> list[str]:
    """The ids of all agent folders, told by their folder names alone."""
    return [folder.name for folder in _agent_folders(settings)]


def folder_digest(folder: Path) -> str:
    """Hex SHA-256 over the names, bytes and executable bits of all files below `folder`; bytecode caches are left out.

    Raises:
        UsageError: something in the folder is a link or not a regular file.
    """
    total = hashlib.sha256()
    for path in sorted(_files(folder), key=lambda path: path.relative_to(folder).as_posix()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        is_executable = bool(path.stat().st_mode & 0o100)
        total.update(f"{path.relative_to(folder).as_posix()}\0{is_executable}\0{content}\n".encode())
    return total.hexdigest()


def _benchmark_root(settings: Settings) -> Path:
    return settings.root / "benchmarks"


def _agent_roots(settings: Settings) -> list[Path]:
    """Where agents lie; an earlier root's folder hides one of the same name in a later root."""
    return [settings.root / "agents", *filter(None, [settings.agents_dir])]


def _agent_folders(settings: Settings) -> list[Path]:
    found = {folder.name: folder for root in reversed(_agent_roots(settings)) for folder in _folders(root)}
    return [found[name] for name in sorted(found)]


def _is_folder_name(name: str) -> bool:
    return re.match(NAME_PATTERN, name) is not None


def _folders(root: Path) -> list[Path]:
    """Folders with a config, by name; names that begin with `_` or `.` are templates and the like."""
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob(f"*/{CONFIG_NAME}") if path.parent.name[0] not in "_.")


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path} is a link or not a regular file", "Put the file itself into the folder.")
        if path.is_file() and path.suffix != ".pyc":
            yield path
        elif path.is_dir() and path.name not in CACHE_FOLDERS:
            yield from _files(path)


def _own_benchmark(folder: Path) -> Benchmark:
    config = _parse(BenchmarkConfig, folder / CONFIG_NAME, _read(folder / CONFIG_NAME))
    if config.name != folder.name:
        raise UsageError(
            f"{folder / CONFIG_NAME}: name is {config.name!r}, the folder is {folder.name!r}",
            "Give both the same name.",
        )
    return _benchmark(folder.name, folder, config)


def _benchmark(benchmark_id: str, folder: Path, config: BenchmarkConfig) -> Benchmark:
    path = folder.resolve()
    for name in config.expose_files:
        if not (path / name).is_file() or not (path / name).resolve().is_relative_to(path):
            raise UsageError(
                f"{folder / CONFIG_NAME}: expose_files names {name!r}, which is no file of {folder}",
                "Name files of the benchmark's own folder.",
            )
    return Benchmark(id=benchmark_id, path=path, digest=folder_digest(path), config=config)


def _smith_benchmark(folder: Path) -> Benchmark:
    """A published folder: its id comes from its config's name, and keys that this product does not know are ignored."""
    raw = _read(folder / CONFIG_NAME)
    known = {key: value for key, value in raw.items() if key in BenchmarkConfig.model_fields and value is not None}
    config = _parse(BenchmarkConfig, folder / CONFIG_NAME, known)
    return _benchmark(SMITH_PREFIX + config.name, folder, config)


def _usable_smith(folder: Path) -> Benchmark | None:
    """None for a folder of somebody else's that cannot be used (no name, unknown evaluation mode): no error of ours."""
    try:
        return _smith_benchmark(folder)
    except UsageError:
        return None


def _smith_candidates(settings: Settings, benchmark_id: str) -> Iterator[Path]:
    """The folder of that name if its config has no other name, else the folder whose config has it."""
    name = benchmark_id.removeprefix(SMITH_PREFIX)
    folders = _folders(settings.smith_bench_dir)
    for folder in sorted(folders, key=lambda folder: folder.name != name):
        if _read(folder / CONFIG_NAME).get("name", folder.name) == name:
            yield folder


def _agent(folder: Path) -> Agent:
    config = _parse(AgentConfig, folder / CONFIG_NAME, _read(folder / CONFIG_NAME))
    start = folder / config.start
    if not start.is_file():
        raise UsageError(f"{folder / CONFIG_NAME}: start names {config.start!r}, which is not there", f"Add {start}.")
    path = folder.resolve()
    return Agent(id=folder.name, path=path, digest=folder_digest(path), config=config)


def _read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UsageError(f"{where}: not valid YAML: {_first_line(error)}", "Correct the file.") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: must be a mapping of keys to values", "See an existing config.yaml for the form.")
    return raw


def _first_line(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]


def _parse(model: type[Config], path: Path, raw: dict[str, Any]) -> Config:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            parent = model if len(first["loc"]) == 1 else _nested(model, first["loc"][:-1])
            known = sorted(parent.model_fields)
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(f"{path}: unknown key {key!r}", f"{hint}Allowed: {', '.join(known)}.") from error
        if first["type"] == "missing":
            raise UsageError(f"{path}: the key {key!r} is missing", "Add it.") from error
        got = f" (it is {first['input']!r})" if len(repr(first["input"])) < 80 else ""
        raise UsageError(f"{path}: {key}: {first['msg']}{got}", "Correct this key.") from error


def _nested(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model at `location` below `model` (list indices skipped), or the last one that can be told."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:
            continue
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), model)
    return model


def _unknown(kind: str, name: str, known: list[str], root: Path) -> UsageError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return UsageError(f"unknown {kind} {name!r}", f"Did you mean {' or '.join(near)}?")
    if known:
        return UsageError(f"unknown {kind} {name!r}", f"Known: {', '.join(known)}.")
    where = f"There is none below {root.absolute()}. Run it in the checkout, or name that with HARNESS_ROOT."
    return UsageError(f"unknown {kind} {name!r}", where)
