"""Taking secrets out of what is kept or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = b"[redacted]"
# Keys of providers and hubs by their form: an agent can have got hold of one that is not ours. Each pattern begins with
# plain letters, which are found ten times as fast as one pattern of alternatives in a prompt of 300 kB.
_FORMS = tuple(
    re.compile(form)
    for form in (
        rb"sk-[A-Za-z0-9_-]{16,}",
        rb"AIza[A-Za-z0-9_-]{30,}",
        rb"hf_[A-Za-z0-9]{20,}",
        rb"gh[pousr]_[A-Za-z0-9]{20,}",
        rb"xai-[A-Za-z0-9]{20,}",
    )
)
_BEARER = re.compile(rb"earer [A-Za-z0-9._~+/=-]{16,}")
_WORD = re.compile(rb"[A-Za-z0-9]")


class Redactor:
    """Replaces the gateway's own keys and everything that has the form of one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({secret.encode() for secret in secrets if secret}, key=len, reverse=True)

    def __call__(self, data: bytes, *more: str) -> bytes:
        """`data` without secrets, and without `more`."""
        for secret in [*(text.encode() for text in more if text), *self._secrets]:
            data = data.replace(secret, MASK)
        for form in _FORMS:
            data = form.sub(_masked, data)
        return _BEARER.sub(b"earer " + MASK, data)


def _masked(match: re.Match[bytes]) -> bytes:
    # The end of a longer word (`risk-...`) is no key.
    before = match.string[match.start() - 1 : match.start()]
    return match[0] if _WORD.match(before) else MASK
