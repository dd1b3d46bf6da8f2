"""Known siblings of base models: checkpoints of the same architecture that no submission should come from."""

from __future__ import annotations

from pathlib import Path

from harness.checkpoint.fingerprint import fingerprint_of
from harness.checkpoint.known_models import KnownModel, KnownModels, known_name, read_known_model
from harness.errors import UsageError
from harness.home import Home
from harness.runner.hub import fetch_from_hub
from harness.runner.resources import Say

MIN_HASH_CHARACTERS = 6


def add_sibling(home: Home, source: str, base_name: str, name: str | None, say: Say) -> tuple[KnownModel, KnownModel]:
    """The base model called `base_name`, and its new sibling from a model folder, a hub name or a shared file.

    Raises:
        UsageError: no such base model or sibling, or one of another architecture.
        PrerequisiteError: the hub does not answer, or its weights are broken.
    """
    known = KnownModels(home.lineage)
    base = find_base(known, base_name)
    sibling = _sibling(source, base, say)
    if name is not None:
        if known_name(name) != name:
            raise UsageError(
                f"--name {name}", f"Letters, digits, dots and dashes only, for example {known_name(name)}."
            )
        sibling = sibling.model_copy(update={"name": name})
    sibling.check_against(base.fingerprint)
    known.put_sibling(sibling)
    return base, sibling


def list_siblings(home: Home) -> list[tuple[KnownModel, KnownModel]]:
    """Every known sibling, with its base model."""
    known = KnownModels(home.lineage)
    bases = [base for tree_hash in known.bases() if (base := known.base(tree_hash))]
    return [(base, sibling) for base in bases for sibling in known.siblings(base.fingerprint.tree_hash)]


def remove_sibling(home: Home, name: str, base_name: str | None) -> Path:
    """Forgets the sibling of that name; returns the file that is gone.

    Raises:
        UsageError: there is none, or it is one of several base models.
    """
    known = KnownModels(home.lineage)
    found = [
        known.sibling_path(base.fingerprint.tree_hash, sibling.name)
        for base, sibling in list_siblings(home)
        if sibling.name == name and (base_name is None or base == find_base(known, base_name))
    ]
    if len(found) != 1:
        what = f"{len(found)} base models have a sibling {name}" if found else f"no known sibling {name}"
        raise UsageError(what, "`harness siblings list` shows them; --of BASE says which is meant.")
    found[0].unlink()
    return found[0]


def find_base(known: KnownModels, name: str) -> KnownModel:
    """The prepared base model of that name, source, or beginning of a tree hash.

    Raises:
        UsageError: there is none, or more than one.
    """
    bases = [base for tree_hash in known.bases() if (base := known.base(tree_hash))]
    found = [base for base in bases if _is_meant(base, name)]
    if len(found) == 1:
        return found[0]
    if not found:
        names = ", ".join(sorted({base.source for base in bases})) or "none"
        raise UsageError(
            f"no base model {name} is prepared here (there are: {names})",
            "Prepare it first: `harness prepare --task TASK --model MODEL`.",
        )
    hashes = ", ".join(base.fingerprint.tree_hash[:12] for base in found)
    raise UsageError(f"{len(found)} base models are called {name}", f"Name one by its tree hash: {hashes}.")


def _is_meant(base: KnownModel, name: str) -> bool:
    is_hash = len(name) >= MIN_HASH_CHARACTERS and base.fingerprint.tree_hash.startswith(name)
    return is_hash or name in (base.name, base.source, base.source.partition("@")[0]) or known_name(name) == base.name


def _sibling(source: str, base: KnownModel, say: Say) -> KnownModel:
    path, tree_hash = Path(source).expanduser(), base.fingerprint.tree_hash
    if path.is_file():
        shared = read_known_model(path)
        if shared.base != tree_hash:
            raise UsageError(
                f"{path} is of a sibling of another base model ({shared.base[:12]}, not {tree_hash[:12]})",
                "Name the base model that it was made for with --of; its weights decide, not its name.",
            )
        return shared
    if path.is_dir():
        folder, found = path, f"{path.resolve().name}@local"
    else:
        folder, commit = fetch_from_hub(source, say)
        found = f"{source.partition('@')[0]}@{commit}"
    say(f"sketching {source}")
    name = known_name(found.partition("@")[0])
    return KnownModel(name=name, source=found, base=tree_hash, fingerprint=fingerprint_of(folder))
