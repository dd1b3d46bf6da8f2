"""What a model is asked: a plain text, or a chat."""

from __future__ import annotations

from harness.domain.base import Frozen


class Message(Frozen):
    """One chat message."""

    role: str
    content: str


class Prompt(Frozen):
    """Either a plain text or a chat; the base model's own chat template is applied by the engine.

    A base model without a template is asked `plain` instead of a chat; without one, the messages with blank lines
    between them.
    """

    text: str | None = None
    messages: tuple[Message, ...] | None = None
    plain: str | None = None
