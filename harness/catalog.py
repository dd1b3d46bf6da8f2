"""What can be run: the benchmark and agent folders, found by name and read only when asked for."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from harness.config_file import checked, mapping_in
from harness.domain.base import Frozen
from harness.domain.specs import NAME_PATTERN, Agent, AgentConfig, Benchmark, BenchmarkConfig
from harness.errors import UsageError
from harness.settings import Settings

CONFIG_NAME = "config.yaml"
SMITH_PREFIX = "smith-"
CACHE_FOLDERS = frozenset({"__pycache__"})
TEXT_KEYS = frozenset({"name", "version", "description"})


class BrokenFolder(Frozen):
    """A benchmark folder that was found and cannot be used: `what` is wrong with it, and the `fix`."""

    id: str
    path: Path
    what: str
    fix: str


def list_benchmarks(settings: Settings) -> list[Benchmark]:
    """Every benchmark that can be used, ours first, each in order of its folder; see `broken_benchmarks` for others."""
    return [found for found in _survey(settings) if isinstance(found, Benchmark)]


def broken_benchmarks(settings: Settings) -> list[BrokenFolder]:
    """The benchmark folders that cannot be used, in the order of `list_benchmarks`: none of them stops the others."""
    return [found for found in _survey(settings) if isinstance(found, BrokenFolder)]


def find_benchmark(settings: Settings, benchmark_id: str) -> Benchmark:
    """The benchmark called `benchmark_id`; no config is read but its own and, of published folders, the names.

    Raises:
        UsageError: there is no such folder (says the nearest names), or its config is bad (says file and key).
    """
    return benchmark_at(settings, benchmark_folder(settings, benchmark_id))


def benchmark_folder(settings: Settings, benchmark_id: str) -> Path:
    """The folder of a benchmark whose config may be bad.

    Raises:
        UsageError: there is no such folder (says the nearest names).
    """
    folder = _benchmark_root(settings) / benchmark_id
    if _is_folder_name(benchmark_id) and (folder / CONFIG_NAME).is_file():
        return folder
    for folder in _smith_folders(settings):
        if _smith_id(folder) == benchmark_id:
            return folder
    unknown = _unknown("benchmark", benchmark_id, benchmark_names(settings), _benchmark_root(settings))
    if not benchmark_id.startswith(SMITH_PREFIX):
        raise unknown
    where = f"Published ones are looked for in {settings.smith_folder()} (SMITH_BENCH_DIR)."
    raise UsageError(unknown.what, f"{unknown.fix} {where}")


def benchmark_at(settings: Settings, folder: Path) -> Benchmark:
    """The benchmark in a folder anywhere; one below SMITH_BENCH_DIR is read as a published one.

    Raises:
        UsageError: the folder holds no benchmark, or its config is bad (says file and key).
    """
    if not (folder / CONFIG_NAME).is_file():
        raise UsageError(f"{folder} holds no {CONFIG_NAME}", "Name a benchmark's folder, or make one: `harness new`.")
    is_published = folder.resolve().parent == settings.smith_folder().resolve()
    return _smith_benchmark(folder) if is_published else _own_benchmark(folder)


def benchmark_names(settings: Settings) -> list[str]:
    """The ids of all benchmark folders, usable or not."""
    own = [folder.name for folder in _folders(_benchmark_root(settings))]
    return [*own, *dict.fromkeys(id_ for folder in _smith_folders(settings) if (id_ := _smith_id(folder)) not in own)]


def list_agents(settings: Settings) -> list[Agent]:
    """Every agent, in order of its id."""
    return [agent_at(folder) for folder in _agent_folders(settings)]


def find_agent(settings: Settings, agent_id: str) -> Agent:
    """The agent called `agent_id`; no other folder's config is read.

    Raises:
        UsageError: there is no such folder (says the nearest names), or its config is bad (says file and key).
    """
    return agent_at(agent_folder(settings, agent_id))


def agent_folder(settings: Settings, agent_id: str) -> Path:
    """The folder of an agent whose config may be bad.

    Raises:
        UsageError: there is no such folder (says the nearest names).
    """
    for root in _agent_roots(settings):
        if _is_folder_name(agent_id) and (root / agent_id / CONFIG_NAME).is_file():
            return root / agent_id
    raise _unknown("agent", agent_id, agent_names(settings), _agent_roots(settings)[0])


def agent_at(folder: Path) -> Agent:
    """The agent in a folder anywhere.

    Raises:
        UsageError: the folder holds no agent, or its config is bad (says file and key).
    """
    if not (folder / CONFIG_NAME).is_file():
        raise UsageError(f"{folder} holds no {CONFIG_NAME}", "Name an agent's folder, or make one: `harness new`.")
    config = checked(AgentConfig, folder / CONFIG_NAME, mapping_in(folder / CONFIG_NAME))
    start = folder / config.start
    if not start.is_file():
        raise UsageError(f"{folder / CONFIG_NAME}: start names {config.start!r}, which is not there", f"Add {start}.")
    path = folder.resolve()
    agent = Agent(id=folder.name, path=path, digest=folder_digest(path), config=config)
    if config.image_of and not (agent.image_folder / "Dockerfile").is_file():
        raise UsageError(
            f"{folder / CONFIG_NAME}: image_of names {config.image_of!r}, where no Dockerfile is",
            f"Name one of the agents in {path.parent} that has one.",
        )
    return agent


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
    config = checked(BenchmarkConfig, folder / CONFIG_NAME, mapping_in(folder / CONFIG_NAME))
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
    """A published folder: its id comes from its config's name (or else its own), and unknown keys are ignored."""
    raw = mapping_in(folder / CONFIG_NAME)
    known = {key: value for key, value in raw.items() if key in BenchmarkConfig.model_fields and value is not None}
    # `version: 1.0` is a number in YAML.
    known = {
        key: str(value) if isinstance(value, int | float) and key in TEXT_KEYS else value
        for key, value in known.items()
    }
    known.setdefault("name", folder.name)
    config = checked(BenchmarkConfig, folder / CONFIG_NAME, known)
    return _benchmark(SMITH_PREFIX + config.name, folder, config)


def _survey(settings: Settings) -> Iterator[Benchmark | BrokenFolder]:
    taken: dict[str, Path] = {}
    own = [(folder.name, folder, _own_benchmark) for folder in _folders(_benchmark_root(settings))]
    published = [(_smith_id(folder), folder, _smith_benchmark) for folder in _smith_folders(settings)]
    for benchmark_id, folder, read in own + published:
        if benchmark_id in taken:
            yield BrokenFolder(
                id=benchmark_id,
                path=folder,
                what=f"{folder} has the same name as {taken[benchmark_id]}",
                fix="Give one of them another name.",
            )
            continue
        taken[benchmark_id] = folder
        try:
            yield read(folder)
        except UsageError as error:
            yield BrokenFolder(id=benchmark_id, path=folder, what=error.what, fix=error.fix)
        except OSError as error:
            yield BrokenFolder(
                id=benchmark_id, path=folder, what=f"{folder}: {error.strerror}", fix="Make it readable."
            )


def _smith_folders(settings: Settings) -> list[Path]:
    """Published folders; of two with one name, the folder that is called so itself is first."""
    return sorted(_folders(settings.smith_folder()), key=lambda folder: _smith_id(folder) != SMITH_PREFIX + folder.name)


def _smith_id(folder: Path) -> str:
    """By the name in its config; by the folder's where that cannot be read, or is no name."""
    try:
        name = mapping_in(folder / CONFIG_NAME).get("name")
    except (UsageError, OSError):
        name = None
    return SMITH_PREFIX + (name if isinstance(name, str) and _is_folder_name(name) else folder.name)


def _unknown(kind: str, name: str, known: list[str], root: Path) -> UsageError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return UsageError(f"unknown {kind} {name!r}", f"Did you mean {' or '.join(near)}?")
    if known:
        return UsageError(f"unknown {kind} {name!r}", f"Known: {', '.join(known)}.")
    where = f"There is none below {root.absolute()}. Run it in the checkout, or name that with HARNESS_ROOT."
    return UsageError(f"unknown {kind} {name!r}", where)
