"""Taking secrets out of what is kept or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = b"[redacted]"
# Keys of providers and hubs by their form: an agent can have got hold of one that is not ours.
_FORMS = re.compile(
    rb"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}"
    rb"|gh[pousr]_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,})|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{16,}"
)


class Redactor:
    """Replaces the gateway's own keys and everything that has the form of one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({secret.encode() for secret in secrets if secret}, key=len, reverse=True)

    def __call__(self, data: bytes, *more: str) -> bytes:
        """`data` without secrets, and without `more`."""
        for secret in [*(text.encode() for text in more if text), *self._secrets]:
            data = data.replace(secret, MASK)
        return _FORMS.sub(MASK, data)
