"""The Hugging Face hub: a model at a pinned commit into the hub's own cache, each weight file against its hash."""

from __future__ import annotations

import fnmatch
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import PrerequisiteError, UsageError
from harness.runner.meter import Meter, unmetered, watched
from harness.runner.resources import Say

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

# What a base model folder may bring from the hub: no pickles, no code.
PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]
READ_BYTES = 4 * 2**20


@dataclass(frozen=True)
class HubFile:
    """A file of a repository, as the hub tells of it; `sha256` of large files only."""

    name: str
    size_bytes: int
    sha256: str


def fetch_from_hub(name: str, say: Say, meter: Meter = unmetered) -> tuple[Path, str]:
    """The folder of `org/repo[@revision]` in the hub's own cache, and the commit that it holds.

    Files that an interrupted fetch had whole stay in that cache; a connection that breaks is taken up where it broke.

    Raises:
        UsageError: that is no name of a model.
        PrerequisiteError: the hub does not answer, has no such model, or sent other bytes than it says.
    """
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # a slow import, needed for the hub alone

    try:
        return _fetched(name, say, meter)
    except HFValidationError as error:
        raise UsageError(f"no model {name}: neither a folder nor a hub name", "See `harness list models`.") from error
    # The second base class is that of all errors of the HTTP library below the hub's client, whichever that is.
    except (HfHubHTTPError, *HfHubHTTPError.__bases__, OSError) as error:
        raise PrerequisiteError(
            f"{name} is no model folder here, and could not be fetched from the hub: {error}",
            "Name a folder with --model (`harness list models` shows those that are here), or try again later: "
            "what was fetched stays.",
        ) from error


def _fetched(name: str, say: Say, meter: Meter) -> tuple[Path, str]:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import disable_progress_bars

    repo_id, _, revision = name.partition("@")
    info = HfApi().model_info(repo_id, revision=revision or None, files_metadata=True)
    files = _wanted(info)
    blobs = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=repo_id, repo_type="model") / "blobs"
    total = sum(file.size_bytes for file in files)
    say(f"fetching {repo_id} at {info.sha} ({total / 1e6:.1f} MB in {len(files)} files)")
    # Its own bars are drawn wherever they please, also on a pipe.
    disable_progress_bars()
    with meter(f"fetching {repo_id}", total) as count, watched(blobs, count):
        folder = Path(snapshot_download(repo_id, revision=info.sha, allow_patterns=PATTERNS))
    _verify(folder, files, meter)
    return folder, str(info.sha)


def _wanted(info: ModelInfo) -> list[HubFile]:
    wanted = [
        HubFile(one.rfilename, one.size or 0, one.lfs.sha256 if one.lfs else "")
        for one in info.siblings or ()
        if any(fnmatch.fnmatch(one.rfilename, pattern) for pattern in PATTERNS)
    ]
    return sorted(wanted, key=lambda file: file.name)


def _verify(folder: Path, files: list[HubFile], meter: Meter) -> None:
    """The library compares sizes alone.

    Raises:
        PrerequisiteError: a file has other bytes than the hub says; it is removed, so that it is fetched again.
    """
    hashed = [file for file in files if file.sha256]
    with meter("comparing with the hub", sum(file.size_bytes for file in hashed)) as count:
        for file in hashed:
            path = (folder / file.name).resolve()
            digest = hashlib.sha256()
            with path.open("rb") as reading:
                while chunk := reading.read(READ_BYTES):
                    digest.update(chunk)
                    count(len(chunk))
            if digest.hexdigest() != file.sha256:
                path.unlink()
                raise PrerequisiteError(
                    f"{file.name} is not what the hub says it is: SHA-256 {digest.hexdigest()}, not {file.sha256}",
                    "It was removed: run the command again to fetch it anew.",
                )
