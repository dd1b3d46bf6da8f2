"""Config, tokenizer, template and generation settings of a submission: compared with the base model's, never used."""

from __future__ import annotations

import hashlib
from typing import Any

from harness.domain.text import shown
from harness.errors import Inadmissible, TooLarge
from harness.grader.base_model import MAX_DOCUMENT_BYTES, BaseModelInfo, parsed
from harness.grader.file_names import COMPANIONS
from harness.grader.opening import Entry, changed, opened_file, read_at, read_up_to

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
READ_BYTES = 2**20
MAX_KEYS_SHOWN = 6
# Written anew by every version of the libraries; they say nothing about the model.
VOLATILE = frozenset(
    {
        "transformers_version",
        "torch_dtype",
        "dtype",
        "use_cache",
        "_name_or_path",
        "name_or_path",
        "is_local",
        "local_files_only",
        # Compared by itself: it may lie in its own file.
        "chat_template",
    }
)


def compare(folder_fd: int, entries: tuple[Entry, ...], base: BaseModelInfo) -> tuple[str, ...]:
    """Notes on what differs from the base model's non-weight files.

    Raises:
        Inadmissible: `auto_map`, a config.json that is no JSON, a file that changes.
        TooLarge: an oversized config.json.
    """
    values = {e.name: _value(folder_fd, e) for e in entries if e.name in COMPANIONS and e.size <= MAX_DOCUMENT_BYTES}
    for entry in entries:
        if entry.name == CONFIG and entry.size > MAX_DOCUMENT_BYTES:
            raise TooLarge(
                f"{CONFIG} has {entry.size} bytes; at most {MAX_DOCUMENT_BYTES} are read",
                "Save it with model.save_pretrained().",
            )
    if CONFIG in values and not isinstance(values[CONFIG], dict):
        raise Inadmissible(f"{CONFIG} is not a JSON object", "Save it with model.save_pretrained().")
    for name, value in values.items():
        _refuse_auto_map(name, value)
    differing = [
        difference
        for entry in entries
        if entry.name in COMPANIONS and entry.name != TEMPLATE
        if (difference := _difference(folder_fd, entry, values.get(entry.name), base))
    ]
    if _template(values) not in (None, _template({n: c.value for n, c in base.companions.items()})):
        differing.append("chat template")
    if not differing:
        return ()
    return (f"not used, the base model's own are: {', '.join(differing)}",)


def _value(folder_fd: int, entry: Entry) -> Any:
    with opened_file(folder_fd, entry) as file_fd:
        raw = read_up_to(file_fd, entry.size)
    if len(raw) != entry.size:
        raise changed(entry.name, "became shorter while it was read")
    return parsed(entry.name, raw)


def _refuse_auto_map(name: str, value: Any) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "auto_map" in item:
                raise Inadmissible(
                    f"{name} has an auto_map: it would load code of yours",
                    "Remove auto_map; only the base model's architecture is scored.",
                )
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _difference(folder_fd: int, entry: Entry, value: Any, base: BaseModelInfo) -> str:
    """How this file differs from the base's, in a few words; empty if it does not."""
    own = base.companions.get(entry.name)
    if own is None:
        return "" if entry.name in ("generation_config.json", "special_tokens_map.json") else entry.name
    if isinstance(value, dict) and isinstance(own.value, dict):
        keys = sorted(k for k in (value.keys() | own.value.keys()) - VOLATILE if value.get(k) != own.value.get(k))
        if not keys:
            return ""
        more = ", ..." if len(keys) > MAX_KEYS_SHOWN else ""
        return f"{entry.name} ({', '.join(shown(key, 40) for key in keys[:MAX_KEYS_SHOWN])}{more})"
    if entry.size == own.size and _sha256(folder_fd, entry) == own.sha256:
        return ""
    return entry.name


def _sha256(folder_fd: int, entry: Entry) -> str:
    """Only called for a file that is as large as the base model's, which bounds the work."""
    digest, reached = hashlib.sha256(), 0
    with opened_file(folder_fd, entry) as file_fd:
        while reached < entry.size:
            chunk = read_at(file_fd, min(READ_BYTES, entry.size - reached), reached)
            if not chunk:
                raise changed(entry.name, "became shorter while it was read")
            digest.update(chunk)
            reached += len(chunk)
    return digest.hexdigest()


def _template(values: dict[str, Any]) -> Any:
    """The chat template in force: its own file, or the key in the tokenizer's config."""
    if values.get(TEMPLATE) is not None:
        return values[TEMPLATE]
    config = values.get(TOKENIZER_CONFIG)
    return config.get("chat_template") if isinstance(config, dict) else None
