"""The lineage folder of a home: fingerprints of base models, and of the known siblings of each.

`lineage/<tree hash of the base>/base.json` and `.../siblings/<name>.json`. The host writes, the grader reads. A
sibling's file is all that a comparison needs: it can be shared, and fetched, without the weights.
"""

from __future__ import annotations

import re
import stat
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints, ValidationError

from harness.checkpoint.fingerprint import Fingerprint, Portable, Sha256
from harness.checkpoint.tree import HEAD
from harness.errors import PrerequisiteError, UsageError

MAX_FILE_BYTES = 256 * 2**20
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$"
FILE_MODE = 0o644


class KnownModel(Portable):
    """A model whose fingerprint is known; `source` says where its weights came from, `base` is its base's tree hash."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    source: Annotated[str, StringConstraints(max_length=500)]
    base: Sha256
    fingerprint: Fingerprint

    def check_against(self, base: Fingerprint) -> None:
        """Does nothing if this is another checkpoint of `base`'s architecture.

        Raises:
            UsageError: it is the base itself, or its tensors have other names or shapes.
        """
        own, wanted = _shapes(self.fingerprint), _shapes(base)
        if self.fingerprint.tree_hash == base.tree_hash:
            raise UsageError(f"{self.name} is the base model itself", "A sibling is another model of its architecture.")
        differing = sorted(name for name in own.keys() | wanted.keys() if own.get(name) != wanted.get(name))
        if differing:
            raise UsageError(
                f"{self.name} has another architecture than its base: {len(differing)} tensors differ in name or "
                f"shape, the first is {differing[0]}",
                "A sibling has the base model's tensors; others cannot be handed in anyway.",
            )


def _shapes(fingerprint: Fingerprint) -> dict[str, tuple[int, ...]]:
    # Whether a tied head is in a file is a matter of the library that wrote it.
    return {tensor.name: tensor.shape for tensor in fingerprint.tensors if tensor.name != HEAD}


def known_name(text: str) -> str:
    """`text`, such as `org/repo@revision`, as the name of a known model."""
    return re.sub(r"[^A-Za-z0-9._-]+", "--", text).lstrip("._-")[:96] or "model"


class KnownModels:
    """The lineage folder at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def base_path(self, tree_hash: str) -> Path:
        return self.root / tree_hash / "base.json"

    def sibling_path(self, base: str, name: str) -> Path:
        return self.root / base / "siblings" / f"{name}.json"

    def base(self, tree_hash: str) -> KnownModel | None:
        """The base model of that tree hash, if its fingerprint was made.

        Raises:
            UsageError: the file is broken.
        """
        path = self.base_path(tree_hash)
        try:
            return read_known_model(path) if path.is_file() else None
        except UsageError as error:
            raise UsageError(error.what, f"Remove {path}: the next run of that base model makes it anew.") from error

    def siblings(self, base: str) -> tuple[KnownModel, ...]:
        """The known siblings of a base model, by name.

        Raises:
            UsageError: a file is broken.
        """
        return tuple(read_known_model(path) for path in sorted((self.root / base / "siblings").glob("*.json")))

    def bases(self) -> tuple[str, ...]:
        """Tree hashes of the base models that something is known of."""
        return tuple(sorted(path.name for path in self.root.iterdir() if path.is_dir())) if self.root.is_dir() else ()

    def put_base(self, model: KnownModel) -> None:
        """Keeps a base model's fingerprint."""
        write_known_model(self.base_path(model.fingerprint.tree_hash), model)

    def put_sibling(self, model: KnownModel) -> Path:
        """Keeps a sibling, in place of an earlier one of that name; returns where."""
        path = self.sibling_path(model.base, model.name)
        write_known_model(path, model)
        return path


def read_known_model(path: Path) -> KnownModel:
    """The model in a file that anybody may have written.

    Raises:
        UsageError: it is none, or of another version, or huge.
    """
    try:
        state = path.stat()
        size = state.st_size
        if not stat.S_ISREG(state.st_mode):
            # A pipe would be waited for, for ever.
            raise UsageError(f"{path} is no regular file", "Name a file of `harness siblings add`.")
        if size > MAX_FILE_BYTES:
            raise UsageError(
                f"{path} has {size} bytes: that is no fingerprint", "Name a file of `harness siblings add`."
            )
        return KnownModel.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][:6])
        raise UsageError(
            f"{path} is no fingerprint that this version reads: {where}: {first['msg'][:200]}",
            "Make it again: `harness siblings add`.",
        ) from error


def write_known_model(path: Path, model: KnownModel) -> None:
    """Writes the file in one step.

    Raises:
        PrerequisiteError: the disk is full, or the folder not ours to write.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False) as file:
            file.write(model.model_dump_json())
        Path(file.name).chmod(FILE_MODE)
        Path(file.name).replace(path)
    except OSError as error:
        raise PrerequisiteError(
            f"could not write {path}: {error.strerror}", "Free disk space, or see whose it is."
        ) from error
