"""Host names as a run may be allowed them: one spelling for each, and whether a name is covered by a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

WILDCARD = "*."
MAX_NAME = 253
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# The forms in which resolvers read a number as an IPv4 address: `127.1`, `2130706433`, `0x7f.1`.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def host_name(text: str) -> str:
    """`text` as a host name in its one spelling: lower case, no final dot, IDNA where it is not ASCII.

    Raises:
        ValueError: it is none; an IP address is none, in whatever form.
    """
    try:
        name = text.encode("idna").decode("ascii") if not text.isascii() else text
    except UnicodeError:
        raise ValueError("is no host name") from None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is no host name")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError("is an IP address, not a host name")
    return name


def host_pattern(text: str) -> str:
    """A host name, or `*.` and one for every name below it, in its one spelling.

    Raises:
        ValueError: it is neither, or a wildcard over all of a top-level domain.
    """
    if not text.startswith(WILDCARD):
        return host_name(text)
    name = host_name(text.removeprefix(WILDCARD))
    if "." not in name:
        raise ValueError("is a wildcard over a whole top-level domain")
    return WILDCARD + name


def is_covered(name: str, patterns: Iterable[str]) -> bool:
    """Whether a host name is one of `patterns`, or below one that begins with `*.`; both in their one spelling."""
    return any(
        name == pattern or (pattern.startswith(WILDCARD) and name.endswith(pattern.removeprefix("*")))
        for pattern in patterns
    )


HostPattern = Annotated[str, AfterValidator(host_pattern)]
