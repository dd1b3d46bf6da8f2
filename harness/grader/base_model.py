"""What the grader knows of a run's base model, read once from its trusted folder: the yardstick for submissions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checkpoint.header import TensorInfo
from harness.checkpoint.strict_json import parse_json
from harness.checkpoint.tree import HEAD, embedding_name, read_header, weight_files
from harness.domain.base import canonical_hash
from harness.errors import PrerequisiteError
from harness.grader.file_names import COMPANIONS

MAX_DOCUMENT_BYTES = 2**20
READ_BYTES = 2**20


@dataclass(frozen=True)
class Companion:
    """A non-weight file of the base model: digest, and its value if it is a small JSON file or a template."""

    sha256: str
    size: int
    value: Any = None


@dataclass(frozen=True)
class BaseModelInfo:
    """The base model's tensors and non-weight files; `tree_hash` is that of its weights."""

    folder: Path
    tree_hash: str
    tensors: dict[str, TensorInfo]
    header_bytes: int
    is_tied: bool
    companions: dict[str, Companion]
    file_names: frozenset[str]

    @classmethod
    def load(cls, folder: Path, tree_hash: str) -> BaseModelInfo:
        """Reads headers and small files; the weights' bytes are not read.

        Raises:
            PrerequisiteError: the folder holds no usable model.
        """
        tensors: dict[str, TensorInfo] = {}
        header_bytes = 0
        for path in weight_files(folder):
            with path.open("rb") as file:
                header = read_header(file, path)
            header_bytes += header.data_start
            for place in header.placements:
                if place.name in tensors:
                    raise PrerequisiteError(f"broken model: {path} holds {place.name} again", "Fetch the model again.")
                tensors[place.name] = place.info
        companions = {name: _companion(folder / name) for name in COMPANIONS if (folder / name).is_file()}
        return cls(
            folder=folder,
            tree_hash=tree_hash,
            tensors=tensors,
            header_bytes=header_bytes,
            is_tied=HEAD not in tensors or _says_tied(companions),
            companions=companions,
            file_names=frozenset(path.name for path in folder.iterdir() if path.is_file()),
        )

    @property
    def n_parameters(self) -> int:
        return sum(info.n_elements for info in self.tensors.values())

    @property
    def data_bytes(self) -> int:
        return sum(info.n_bytes for info in self.tensors.values())

    @property
    def companion_bytes(self) -> int:
        return sum(companion.size for companion in self.companions.values())

    @property
    def files_hash(self) -> str:
        """Digest of config, tokenizer, template and generation settings, which every snapshot of this base carries."""
        return canonical_hash({name: companion.sha256 for name, companion in self.companions.items()})

    @property
    def embedding(self) -> str | None:
        """The tensor that a tied head repeats."""
        return embedding_name(self.tensors)


def _says_tied(companions: dict[str, Companion]) -> bool:
    config = companions["config.json"].value if "config.json" in companions else None
    return isinstance(config, dict) and config.get("tie_word_embeddings") is True


def _companion(path: Path) -> Companion:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
            size += len(chunk)
    value = parsed(path.name, path.read_bytes()) if size <= MAX_DOCUMENT_BYTES else None
    return Companion(digest.hexdigest(), size, value)


def parsed(name: str, raw: bytes) -> Any:
    """The value of a small companion file: JSON, or the text of a template; None if it is neither."""
    try:
        if name.endswith(".json"):
            return parse_json(raw)
        return raw.decode("utf-8") if name.endswith(".jinja") else None
    except ValueError:
        return None
