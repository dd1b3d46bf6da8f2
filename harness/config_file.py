"""A `config.yaml` that somebody else may have written: read within bounds, and checked against its model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import UsageError

MAX_BYTES, MAX_NODES = 2**19, 20_000
# The last ones are what the parser makes of a bad value with a tag, such as `!!int ""`.
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError)

Config = TypeVar("Config", bound=BaseModel)


def mapping_in(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        UsageError: it is none, or larger than what a person writes.
    """
    # Others can be read without end, or wait for a writer for ever.
    if not path.is_file():
        raise UsageError(f"{path} is not a regular file", "Put the file itself into the folder.")
    if path.stat().st_size > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes", "Keep data out of it.")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UsageError(f"{where}: not valid YAML: {_first_line(error)}", "Correct the file.") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: must be a mapping of keys to values", "See an existing config.yaml for the form.")
    if sum(1 for _ in islice(_nodes(raw), MAX_NODES)) == MAX_NODES:
        raise UsageError(f"{path}: holds more than {MAX_NODES} values", "Write it without aliases (`*name`).")
    return raw


def _nodes(value: object) -> Iterator[object]:
    """Everything in `value`, what aliases repeat as often as they do: a few lines of them can mean millions."""
    open_values = [value]
    while open_values:
        yield (value := open_values.pop())
        if isinstance(value, dict):
            open_values += [*value.keys(), *value.values()]
        elif isinstance(value, list | set | tuple):
            open_values += value


def _first_line(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]


def checked(model: type[Config], path: Path, raw: dict[str, Any]) -> Config:
    """`raw`, the mapping of the file at `path`, as a `model`.

    Raises:
        UsageError: it does not have the form; says the key.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            parent = model if len(first["loc"]) == 1 else _nested(model, first["loc"][:-1])
            known = sorted(parent.model_fields)
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(f"{path}: unknown key {key!r}", f"{hint}Allowed: {', '.join(known)}.") from error
        if first["type"] == "missing":
            raise UsageError(f"{path}: the key {key!r} is missing", "Add it.") from error
        got = f" (it is {first['input']!r})" if len(repr(first["input"])) < 80 else ""
        raise UsageError(f"{path}: {key}: {first['msg']}{got}", "Correct this key.") from error


def _nested(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model at `location` below `model` (list indices skipped), or the last one that can be told."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:
            continue
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), model)
    return model
