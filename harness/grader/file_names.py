"""Which names a submitted folder may hold, and what to do about the others."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from fnmatch import fnmatchcase

from harness.domain.text import shown
from harness.errors import ErrorClass, Inadmissible, RequestError
from harness.grader.opening import Entry

MAX_NAMED = 5

# What save_pretrained leaves beside the weights. The base model's own are used; these are only compared and noted.
COMPANIONS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "chat_template.json",
)
# Harmless, never read: documentation, a trainer's own records, the index (it is made anew from the headers).
IGNORED = (
    "*.safetensors.index.json",
    "preprocessor_config.json",
    "processor_config.json",
    "trainer_state.json",
    "train_results.json",
    "eval_results.json",
    "all_results.json",
    "*.md",
    "LICENSE*",
    "NOTICE*",
    "*.log",
    ".gitattributes",
    ".gitignore",
)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt", "*.h5", "*.msgpack", "*.npz", "*.npy", "*.joblib")
CODE = ("*.py", "*.pyc", "*.so", "*.sh")
ADAPTER = ("adapter_model.safetensors", "adapter_config.json", "adapter_model.bin")
MERGE = "Merge the adapter first: model = model.merge_and_unload(); model.save_pretrained(<folder>)."


class Role(Enum):
    """What a file of a submission is to the grader."""

    WEIGHTS = "weights"
    COMPANION = "companion"
    IGNORED = "ignored"
    FORBIDDEN = "forbidden"


def role_of(name: str, base_names: frozenset[str] = frozenset()) -> Role:
    """The role of the file `name`; a file that the base model's folder has too is at worst ignored."""
    if _matches(name, ADAPTER) or _matches(name, PICKLES) or _matches(name, CODE):
        return Role.FORBIDDEN
    if name.endswith(".safetensors"):
        return Role.WEIGHTS if name.isprintable() and not name.startswith(".") else Role.FORBIDDEN
    if name in COMPANIONS:
        return Role.COMPANION
    return Role.IGNORED if _matches(name, IGNORED) or name in base_names else Role.FORBIDDEN


def check_entries(entries: Iterable[Entry], base_names: frozenset[str]) -> None:
    """Refuses a folder that holds anything but regular files with known names; names up to five of the others.

    Raises:
        Inadmissible: with every offender's name and what to do.
    """
    known = tuple(entries)
    irregular = [entry for entry in known if not entry.is_regular and not entry.is_folder]
    if irregular:
        raise Inadmissible(
            f"{_listed(f'{shown(e.name)} is {e.kind}' for e in irregular)}: only regular files are accepted",
            "Put the files themselves into the folder (cp -L).",
            error_class=ErrorClass.NOT_A_REGULAR_FILE,
        )
    has_weights = any(entry.is_regular and role_of(entry.name) is Role.WEIGHTS for entry in known)
    if not has_weights:
        _refuse_without_weights(known)
    forbidden = [e for e in known if e.is_folder or role_of(e.name, base_names) is Role.FORBIDDEN]
    if forbidden:
        raise _forbidden(forbidden)


def _refuse_without_weights(entries: tuple[Entry, ...]) -> None:
    names = [entry.name for entry in entries]
    if any(name in ADAPTER for name in names):
        raise Inadmissible(
            "the folder holds an adapter only, no full weights", MERGE, error_class=ErrorClass.NO_WEIGHTS
        )
    pickles = [name for name in names if _matches(name, PICKLES)]
    if pickles:
        raise Inadmissible(
            f"the folder has no safetensors weights, only pickles: {_listed(map(shown, pickles))}",
            "Save with model.save_pretrained(<folder>).",
        )
    raise Inadmissible(
        "the folder has no *.safetensors weights" if names else "the folder is empty",
        "Save with model.save_pretrained(<folder>). The mounts models/ and data/ cannot be submitted.",
        error_class=ErrorClass.NO_WEIGHTS,
    )


def _forbidden(entries: list[Entry]) -> RequestError:
    names = [shown(entry.name) + ("/" if entry.is_folder else "") for entry in entries]
    reasons = sorted({_reason(entry) for entry in entries})
    if any(entry.name in ADAPTER for entry in entries):
        return Inadmissible(f"the folder holds adapter files beside the weights: {_listed(names)}", MERGE)
    return Inadmissible(
        f"not accepted in a checkpoint: {_listed(names)} ({'; '.join(reasons)})",
        "Remove them: the folder may hold *.safetensors weights and what save_pretrained writes beside them.",
    )


def _reason(entry: Entry) -> str:
    if entry.is_folder:
        return "no folders inside, such as checkpoint-*/"
    if _matches(entry.name, PICKLES):
        return "pickles and other non-safetensors weights can run code"
    if _matches(entry.name, CODE):
        return "no code"
    return "unknown file name"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - MAX_NAMED} more" if len(known) > MAX_NAMED else ""
    return ", ".join(known[:MAX_NAMED]) + more
