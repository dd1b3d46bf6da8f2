"""Checks of a call's body by lists of what is allowed; what is not listed is refused with the reason.

Providers offer tools and state of their own: search, code execution, files, stored conversations, connectors. With
those an agent would have the internet, a second machine or a memory outside its run, so they are refused unless the run
allows the tool.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.errors import LlmRefusal

MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
# More answers to one question than any agent asks for; each is paid for.
MAX_ANSWERS = 16
MAX_LISTED = 20_000


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def refused(what: str) -> LlmRefusal:
    """The error of a body that is not allowed. No digits in it: some agents take those for a status to retry on."""
    return LlmRefusal(400, "invalid_request_error", f"{what} is not allowed in this run")


def malformed(what: str) -> LlmRefusal:
    """The error of a body that cannot be meant."""
    return LlmRefusal(400, "invalid_request_error", what)


def shown(name: str) -> str:
    """A name from an agent, fit to be shown: short, printable, in quotes, and without digits (see `refused`)."""
    return repr(re.sub(r"\d+", "#", name[:60]))


def only(fields: Mapping[str, Any], allowed: Collection[str], where: str) -> None:
    """Refuses a field that is not listed; one that is there but empty is as good as absent.

    Raises:
        LlmRefusal: there is such a field.
    """
    for name, value in fields.items():
        if name not in allowed and value not in (None, False, [], {}):
            raise refused(f"field {shown(name)} of {where}")


def one_of(value: Any, allowed: Collection[str], what: str) -> None:
    """Refuses a value that is not one of the listed words.

    Raises:
        LlmRefusal: it is not.
    """
    if not isinstance(value, str) or value not in allowed:
        raise refused(f"{what} {shown(str(value))}")


def objects(value: Any, what: str) -> Iterator[dict[str, Any]]:
    """The objects of a list that may be absent.

    Raises:
        LlmRefusal: it is no list, too long, or holds anything else.
    """
    if value is None:
        return
    if not isinstance(value, list) or len(value) > MAX_LISTED:
        raise malformed(f"{what} must be a list of objects, and not endless")
    for item in value:
        if not isinstance(item, dict):
            raise malformed(f"{what} must be a list of objects")
        yield item


def content_parts(value: Any, what: str) -> Iterator[dict[str, Any]]:
    """The parts of a content that may also be absent or plain text.

    Raises:
        LlmRefusal: it is none of these.
    """
    if isinstance(value, str):
        return
    yield from objects(value, what)


def inline_image(url: Any) -> None:
    """Refuses an image that the provider would have to fetch.

    Raises:
        LlmRefusal: the address is not a `data:` URL.
    """
    if not isinstance(url, str) or not url.startswith("data:"):
        raise refused("an image that is not inline (a `data:` address)")


def model_name(value: Any) -> str:
    """The model that a call names.

    Raises:
        LlmRefusal: it names none, or one that cannot be a name.
    """
    if not isinstance(value, str) or not MODEL.fullmatch(value) or ".." in value:
        raise malformed("the call names no model, or one that cannot be a name")
    return value


def positive(value: Any, what: str) -> int | None:
    """A whole number above zero; `None` where it is absent.

    Raises:
        LlmRefusal: it is anything else.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**9:
        raise malformed(f"{what} must be a whole number above zero")
    return value


def answers(value: Any, what: str) -> int:
    """How many answers a call asks for.

    Raises:
        LlmRefusal: too many.
    """
    number = positive(value, what) or 1
    if number > MAX_ANSWERS:
        raise refused(f"so large a number under {what}")
    return number
