"""Base models: from a local folder, the `models/` of a benchmark, or the hub at a pinned revision."""

from __future__ import annotations

import json
from pathlib import Path

from harness.checkpoint.tree import tree_hash
from harness.domain.base import canonical_hash
from harness.domain.specs import Benchmark, ModelRef
from harness.errors import PrerequisiteError, UsageError
from harness.home import Home
from harness.runner.resources import Say, copy_folder, folder_size, freeze, locked, staged
from harness.settings import Settings

# What a base model folder may bring from the hub: no pickles, no code.
HUB_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]


def prepare_model(name: str, benchmark: Benchmark, settings: Settings, say: Say) -> ModelRef:
    """The model `name` (a folder, a benchmark's model, or `org/repo[@revision]`) in the store, read-only.

    Raises:
        UsageError: no such model, or a folder that holds no safetensors model.
        PrerequisiteError: the hub does not answer, or the disk is full.
    """
    home = settings.resolved_home()
    with locked(home.models):
        local = _local_folder(name, benchmark, settings)
        model = _from_folder(local, local.name, "local", home, say) if local else _from_hub(name, home, say)
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
        raise UsageError(f"{name} is no Hugging Face model folder: it has no config.json")
    return None


def _from_folder(source: Path, repo_id: str, revision: str, home: Home, say: Say) -> ModelRef:
    signature = _signature(source)
    receipt = home.cache / "models" / f"{signature}.json"
    if receipt.is_file():
        known = ModelRef.model_validate_json(receipt.read_text())
        if (home.path / known.path).is_dir():
            return known
    if not list(source.glob("*.safetensors")):
        raise UsageError(f"{source} has no *.safetensors", "Save the model with save_pretrained (safetensors).")
    say(f"hashing {source.name} ({folder_size(source) / 1e6:.0f} MB)")
    digest = tree_hash(source)
    # The folder's other files (tokenizer, template, config) decide scores too: they are part of the name.
    files = canonical_hash(_others(source))
    target = home.models / f"{repo_id.replace('/', '--')}@{canonical_hash([digest, files])[:12]}"
    if not target.is_dir():
        say(f"copying {source.name} into the store")
        with staged(target) as stage:
            copy_folder(source, stage)
            if tree_hash(stage) != digest:
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


def _from_hub(name: str, home: Home, say: Say) -> ModelRef:
    repo_id, _, revision = name.partition("@")
    pin = home.cache / "models" / f"hub-{canonical_hash([repo_id, revision])[:16]}.json"
    if pin.is_file():
        known = ModelRef.model_validate_json(pin.read_text())
        if (home.path / known.path).is_dir():
            return known
    folder, commit = fetch_from_hub(name, say)
    model = _from_folder(folder, repo_id, commit, home, say)
    pin.parent.mkdir(parents=True, exist_ok=True)
    pin.write_text(model.model_dump_json())
    return model


def fetch_from_hub(name: str, say: Say) -> tuple[Path, str]:
    """The folder of `org/repo[@revision]` in the hub's own cache, and the commit that it holds.

    Raises:
        UsageError: that is no name of a model.
        PrerequisiteError: the hub does not answer, or has no such model.
    """
    from huggingface_hub import HfApi, snapshot_download  # a slow import, needed for the hub alone
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    repo_id, _, revision = name.partition("@")
    try:
        commit = HfApi().model_info(repo_id, revision=revision or None).sha
        say(f"fetching {repo_id} at {commit}")
        return Path(snapshot_download(repo_id, revision=commit, allow_patterns=HUB_PATTERNS)), str(commit)
    except HFValidationError as error:
        raise UsageError(f"no model {name}: neither a folder nor a hub name", "See `harness list models`.") from error
    # The second base class is that of all errors of the HTTP library below the hub's client, whichever that is.
    except (HfHubHTTPError, *HfHubHTTPError.__bases__, OSError) as error:
        raise PrerequisiteError(
            f"{name} is no model folder here, and could not be fetched from the hub: {error}",
            "Name a folder with --model (`harness list models` shows those that are here), or try again later.",
        ) from error


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
    except ValueError:
        return data.hex()
