"""What an image is built from: the files of a zone, their digest, and the tar that goes to the Docker Engine."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from harness.errors import PrerequisiteError

HOST_CERTIFICATES = Path("/usr/local/share/ca-certificates")
# One fixed time for every file: the same files give the same layers on every machine.
FIXED_MTIME = 1_577_836_800

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(harness[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+(harness[\w.]*))",
    re.MULTILINE,
)
# What is read by itself; every other file of a zone's folder is in its build context as it is.
_RECIPE = re.compile(r"Dockerfile$|^requirements\S*\.txt$")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class Zone:
    """One image of ours: what it stands on and where its third-party packages are listed."""

    name: str
    parent: str | None
    has_harness: bool = False
    # The part of `harness` that runs there, if that is not called as the zone is; its packages come with it.
    part: str = ""
    # Whether third-party packages are installed beside it.
    has_packages: bool = True
    # Built on demand only; a run needs it where its plan says so.
    is_optional: bool = False
    # Whether it installs a torch of its own.
    has_torch: bool = False


# In build order.
ZONES = (
    Zone("base", None),
    Zone("torch", "base", has_torch=True),
    Zone("agent", "torch"),
    Zone("grader", "base", has_harness=True),
    Zone("scorer", "base", has_harness=True),
    Zone("executor", "base", has_harness=True, has_packages=False),
    Zone("inference", "torch", has_harness=True),
    Zone("gateway", "base", has_harness=True),
    Zone("opencompass", "torch", has_harness=True, part="scorer", is_optional=True),
)


# vLLM pins another torch than the layer that agents share.
GPU_ZONES = {"inference": Zone("inference", "base", has_harness=True, has_torch=True)}


def zones_of(device: str) -> tuple[Zone, ...]:
    """The zones of a target, in build order."""
    return tuple(GPU_ZONES.get(zone.name, zone) if device == "gpu" else zone for zone in ZONES)


@dataclass(frozen=True)
class ContextFile:
    """One file of a build context, by its name inside it."""

    name: str
    content: bytes
    is_executable: bool = False


def zone_files(root: Path, zone: Zone, device: str) -> tuple[ContextFile, ...]:
    """Everything that decides the content of a zone's image, sorted by name; the host's certificates and wheels do not.

    Raises:
        PrerequisiteError: `root` is not a checkout of the harness.
    """
    folder = root / "images" / zone.name
    recipe = folder / f"{device}.Dockerfile"
    if not recipe.is_file():
        recipe = folder / "Dockerfile"
    if not recipe.is_file():
        raise PrerequisiteError(f"no {recipe}", "Run in the checkout, or point HARNESS_ROOT at it.")
    files = [ContextFile("Dockerfile", recipe.read_bytes())]
    files += [file for file in folder_files(folder) if not _RECIPE.search(file.name)]
    if zone.has_harness:
        part = zone.part or zone.name
        files.extend(_harness_files(root, part))
        if zone.has_packages:
            own = [folder / "requirements.txt", folder / f"requirements-{device}.txt"]
            packages = "".join([_zone_requirements(root, part), *(f.read_text() for f in own if f.is_file())])
            files.append(ContextFile("requirements.txt", packages.encode()))
    elif zone.name == "torch":
        files.append(ContextFile("requirements.txt", (folder / f"requirements-{device}.txt").read_bytes()))
    elif zone.parent is not None:
        files.append(ContextFile("requirements.txt", (folder / "requirements.txt").read_bytes()))
    return tuple(sorted(files, key=lambda file: file.name))


def folder_files(folder: Path) -> tuple[ContextFile, ...]:
    """The regular files of a benchmark's or an agent's folder, sorted; links and caches are left out."""
    return tuple(_read(path, str(path.relative_to(folder))) for path in sorted(_walk(folder)))


def context_digest(files: Iterable[ContextFile], *parents: str) -> str:
    """12 hex digits over names, modes and contents of `files`, whatever their order, and over `parents` in order."""
    digest = hashlib.sha256()
    for parent in parents:
        digest.update(f"parent {parent}\n".encode())
    for file in sorted(files, key=lambda file: file.name):
        content = hashlib.sha256(file.content).hexdigest()
        digest.update(f"{file.name} {int(file.is_executable)} {content}\n".encode())
    return digest.hexdigest()[:12]


def build_tar(
    files: Iterable[ContextFile], wheels: Iterable[Path] = (), certificates: Path = HOST_CERTIFICATES
) -> IO[bytes]:
    """A build context ready to send: `files`, then `ca/` (the host's extra certificates) and `wheelhouse/` (`wheels`).

    Both folders always exist, so that `COPY ca/` works on every machine; a file of the same name in `files` wins.
    """
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (handed to the caller, who closes it)
    taken = set()
    with tarfile.open(fileobj=spool, mode="w") as tar:
        for file in files:
            taken.add(file.name)
            header = _header(file.name, len(file.content), 0o755 if file.is_executable else 0o644)
            tar.addfile(header, io.BytesIO(file.content))
        for folder, paths in (("ca", host_certificates(certificates)), ("wheelhouse", sorted(wheels))):
            tar.addfile(_folder_header(folder))
            for path in paths:
                if f"{folder}/{path.name}" not in taken:
                    with path.open("rb") as source:
                        tar.addfile(_header(f"{folder}/{path.name}", path.stat().st_size, 0o644), source)
    spool.seek(0)
    return spool


def host_certificates(folder: Path) -> list[Path]:
    """The extra CA certificates that this host trusts (none on an ordinary machine), one per file name."""
    return sorted({path.name: path for path in sorted(folder.rglob("*.crt"))}.values()) if folder.is_dir() else []


def zone_modules(root: Path, zone: str) -> set[Path]:
    """The Python files that a zone needs: its own sub-package and whatever of `harness` those import, transitively."""
    own = root / "harness" / zone
    # A service never calls itself: its client half belongs to others.
    waiting = [path for path in _walk(own) if path.suffix == ".py" and path != own / "client.py"]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for module in _imports(path.read_bytes()):
            waiting.extend(_module_files(root, module))
    return found


def _harness_files(root: Path, zone: str) -> Iterator[ContextFile]:
    modules = zone_modules(root, zone)
    own = root / "harness" / zone
    # Data files (SQL, JSON) travel with the packages whose code is there.
    folders = {path.parent for path in modules} - {root / "harness"}
    extra = {path for folder in folders for path in folder.iterdir() if path.is_file() and path.suffix != ".py"}
    extra.update(path for path in _walk(own) if path.suffix != ".py")
    for path in modules | {path for path in extra if not path.name.startswith(".")}:
        yield _read(path, str(path.relative_to(root)))


@lru_cache(maxsize=1024)
def _imports(source: bytes) -> frozenset[str]:
    """Names below `harness` that a source imports anywhere in it (a pattern: parsing would take ten times as long)."""
    names: set[str] = set()
    for package, imported, module in _IMPORT.findall(source.decode()):
        if module:
            names.add(module)
            continue
        names.add(package)
        names.update(f"{package}.{word}" for word in _NAME.findall(imported))
    return frozenset(names)


def _module_files(root: Path, module: str) -> Iterator[Path]:
    """The file of a dotted name, if it is a module at all, and the `__init__.py` of every package above it."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        base = root.joinpath(*parts[:depth])
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                yield path


def _zone_requirements(root: Path, zone: str) -> str:
    """The zone's third-party packages: the core dependencies and the zone's extra of pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return "\n".join([*project["dependencies"], *project["optional-dependencies"][zone]]) + "\n"


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        is_cache = "__pycache__" in path.parts or path.suffix == ".pyc"
        if not is_cache and path.is_file() and not path.is_symlink():
            yield path


def _read(path: Path, name: str) -> ContextFile:
    return ContextFile(name, path.read_bytes(), is_executable=bool(path.stat().st_mode & 0o100))


def _header(name: str, size: int, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, mode, FIXED_MTIME
    return header


def _folder_header(name: str) -> tarfile.TarInfo:
    header = _header(name, 0, 0o755)
    header.type = tarfile.DIRTYPE
    return header
