"""From a prompt to the text that an engine tokenizes, for models with and without a chat template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

jinja2 = pytest.importorskip("jinja2", reason="comes with transformers")

from harness.domain.prompts import Message, Prompt  # noqa: E402
from harness.inference.engines.prompts import token_ids  # noqa: E402

CHAT = (Message(role="user", content="1+1?"), Message(role="assistant", content="2"))


@dataclass
class Spelling:
    """A tokenizer whose ids are the code points of a text."""

    chat_template: str | None = None
    bos_token_id: int | None = 1
    special: list[bool] = field(default_factory=list)

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        self.special.append(add_special_tokens)
        return {"input_ids": [ord(character) for character in text]}

    def apply_chat_template(self, chat: list[dict[str, str]], **options: Any) -> str:
        return "".join(f"<{message['role']}>{message['content']}" for message in chat)


def asked(prompt: Prompt, tokenizer: Spelling) -> str:
    return "".join(chr(token) for token in token_ids(tokenizer, prompt))


def test_a_chat_goes_through_the_template_whatever_plain_says() -> None:
    tokenizer = Spelling(chat_template="any")
    assert asked(Prompt(messages=CHAT, plain="1+1?\n2"), tokenizer) == "<user>1+1?<assistant>2"
    assert tokenizer.special == [False]


def test_a_model_without_a_template_is_asked_plain() -> None:
    tokenizer = Spelling()
    assert asked(Prompt(messages=CHAT, plain="1+1?\n2"), tokenizer) == "1+1?\n2"
    assert tokenizer.special == [True]


def test_without_plain_the_messages_are_joined() -> None:
    assert asked(Prompt(messages=CHAT), Spelling()) == "1+1?\n\n2"
