"""Base models: from a local folder, the `models/` of a benchmark, or the hub at a pinned revision."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.checkpoint.tree import tree_hash, weight_files
from harness.domain.base import canonical_hash
from harness.domain.specs import Benchmark, ModelRef
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.runner.hub import fetch_from_hub
from harness.runner.meter import Meter, unmetered
from harness.runner.resources import Say, copy_folder, folder_size, freeze, locked, staged
from harness.settings import Settings


@dataclass(frozen=True)
class _Telling:
    """Who is told what is done, and how far it is."""

    say: Say
    meter: Meter


def prepare_model(name: str, benchmark: Benchmark, settings: Settings, say: Say, meter: Meter = unmetered) -> ModelRef:
    """The model `name` (a folder, a benchmark's model, or `org/repo[@revision]`) in the store, read-only.

    Raises:
        UsageError: no such model, or a folder that holds no safetensors model.
        PrerequisiteError: the hub does not answer, or the disk is full.
    """
    home, telling = settings.resolved_home(), _Telling(say, meter)
    with locked(home.models):
        local = _local_folder(name, benchmark, settings)
        model = _from_folder(local, local.name, "local", home, telling) if local else _from_hub(name, home, telling)
        _keep_fingerprint(model, home, say)
        return model


def _local_folder(name: str, benchmark: Benchmark, settings: Settings) -> Path | None:
    candidates = [Path(name).expanduser(), benchmark.path / "models" / name]
    if settings.autorl_file_path is not None:
        candidates.append(settings.autorl_file_path / "models" / name)
    candidates += [folder / "models" / name for folder in sorted((settings.root / "benchmarks").glob("*"))]
    for folder in candidates:
        if (folder / "config.json").is_file():
            return folder.resolve()
    if Path(name).expanduser().is_dir():
        raise UsageError(
            f"{name} is no Hugging Face model folder: it has no config.json",
            "Name the folder that `save_pretrained` wrote, model and tokenizer; adapters must be merged first.",
        )
    return None


def _from_folder(source: Path, repo_id: str, revision: str, home: Home, telling: _Telling) -> ModelRef:
    signature = _signature(source)
    receipt = home.cache / "models" / f"{signature}.json"
    if receipt.is_file():
        known = ModelRef.model_validate_json(receipt.read_text())
        if (home.path / known.path).is_dir():
            return known
    if not list(source.glob("*.safetensors")):
        raise UsageError(f"{source} has no *.safetensors", "Save the model with save_pretrained (safetensors).")
    size = folder_size(source)
    telling.say(f"hashing {repo_id} ({size / 1e6:.0f} MB)")
    with telling.meter(f"hashing {repo_id}", _weight_bytes(source)) as count:
        digest = tree_hash(source, count)
    # The folder's other files (tokenizer, template, config) decide scores too: they are part of the name.
    files = canonical_hash(_others(source))
    target = home.models / f"{repo_id.replace('/', '--')}@{canonical_hash([digest, files])[:12]}"
    if not target.is_dir():
        telling.say(f"copying {repo_id} into the store")
        with staged(target) as stage:
            with telling.meter(f"copying {repo_id}", size) as count:
                copy_folder(source, stage, count)
            with telling.meter(f"comparing {repo_id}", _weight_bytes(stage)) as count:
                is_same = tree_hash(stage, count) == digest
            if not is_same:
                raise PrerequisiteError(f"{source} changed while it was copied", "Run the command again.")
            freeze(stage)
    model = ModelRef(
        repo_id=repo_id,
        revision=revision,
        path=target.relative_to(home.path),
        tree_hash=digest,
        files_hash=files,
        size_bytes=folder_size(target),
    )
    receipt.parent.mkdir(parents=True, exist_ok=True)
    receipt.write_text(model.model_dump_json())
    return model


def _from_hub(name: str, home: Home, telling: _Telling) -> ModelRef:
    repo_id, _, revision = name.partition("@")
    pin = home.cache / "models" / f"hub-{canonical_hash([repo_id, revision])[:16]}.json"
    if pin.is_file():
        known = ModelRef.model_validate_json(pin.read_text())
        if (home.path / known.path).is_dir():
            return known
    folder, commit = fetch_from_hub(name, telling.say, telling.meter)
    model = _from_folder(folder, repo_id, commit, home, telling)
    pin.parent.mkdir(parents=True, exist_ok=True)
    pin.write_text(model.model_dump_json())
    return model


def _keep_fingerprint(model: ModelRef, home: Home, say: Say) -> None:
    """Makes, once, what submissions are compared with to see where they come from."""
    from harness.checkpoint.fingerprint import fingerprint_of  # NumPy is slow to import, and mostly not needed
    from harness.checkpoint.known_models import KnownModel, KnownModels, known_name

    known = KnownModels(home.lineage)
    if known.base_path(model.tree_hash).is_file():
        return
    say(f"sketching {model.repo_id} ({model.size_bytes / 1e6:.0f} MB)")
    source = f"{model.repo_id}@{model.revision}"
    fingerprint = fingerprint_of(home.path / model.path)
    known.put_base(
        KnownModel(name=known_name(model.repo_id), source=source, base=model.tree_hash, fingerprint=fingerprint)
    )


def _weight_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in weight_files(folder))


def verify_model(model: ModelRef, home: Home, meter: Meter = unmetered) -> None:
    """Reads all of a stored model again.

    Raises:
        PrerequisiteError: it is not what it was when it was stored.
    """
    folder = home.path / model.path
    with meter(f"verifying {model.repo_id}", _weight_bytes(folder)) as count:
        is_same = tree_hash(folder, count) == model.tree_hash
    if not is_same or canonical_hash(_others(folder)) != model.files_hash:
        raise PrerequisiteError(
            f"the stored model {folder} is not what was stored: its files have changed",
            f"Remove it (`chmod -R u+w {folder} && rm -r {folder}`), then run the command again.",
        )


def _signature(source: Path) -> str:
    """Names the state of a folder cheaply, to skip hashing gigabytes again: paths, sizes, inodes and times."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    stats = [(str(path.relative_to(source)), path.stat()) for path in files]
    return canonical_hash([str(source), [[n, s.st_size, s.st_ino, s.st_mtime_ns, s.st_ctime_ns] for n, s in stats]])


def _others(folder: Path) -> list[list[str]]:
    """Name and content of each small file beside the weights (documentation aside)."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in (".json", ".txt", ".jinja", ".model"))
    skipped = "model.safetensors.index.json"
    return [
        [str(p.relative_to(folder)), canonical_hash(_content(p))]
        for p in files
        if p.name != skipped and not any(part.startswith(".") for part in p.relative_to(folder).parts)
    ]


def _content(path: Path) -> str:
    data = path.read_bytes()
    try:
        return json.dumps(json.loads(data), sort_keys=True)
    except (ValueError, RecursionError):
        return data.hex()
