"""Prompts as token ids: plain text with the tokenizer's special tokens, or a chat through the base model's template."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

from harness.domain.prompts import Message, Prompt
from harness.errors import UsageError


def token_ids(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The prompt's token ids, never empty: an empty prompt is the tokenizer's first special token.

    Raises:
        UsageError: the prompt is neither a text nor a chat, or the template refuses the chat.
    """
    if (prompt.text is None) == (prompt.messages is None):
        raise UsageError("a prompt is either a text or a chat")
    if prompt.messages is None:
        ids = tokenizer(prompt.text)["input_ids"]
    elif tokenizer.chat_template is None:
        # A base model without a template can still be given a few-shot chat.
        joined = "\n\n".join(message.content for message in prompt.messages)
        ids = tokenizer(joined if prompt.plain is None else prompt.plain)["input_ids"]
    else:
        # The template writes the special tokens itself.
        ids = tokenizer(_rendered(tokenizer, prompt.messages), add_special_tokens=False)["input_ids"]
    return list(ids) or [_first_token(tokenizer)]


def _rendered(tokenizer: Any, messages: tuple[Message, ...]) -> str:
    try:
        return _apply(tokenizer, messages)
    except TemplateError as error:
        if len(messages) < 2 or messages[0].role != "system":
            raise UsageError(f"the model's chat template refuses the chat: {error}") from error
    # Some templates know no system role: its text then opens the first turn.
    opened = messages[1].model_copy(update={"content": f"{messages[0].content}\n\n{messages[1].content}"})
    try:
        return _apply(tokenizer, (opened, *messages[2:]))
    except TemplateError as error:
        raise UsageError(f"the model's chat template refuses the chat: {error}") from error


def _apply(tokenizer: Any, messages: tuple[Message, ...]) -> str:
    chat = [message.model_dump() for message in messages]
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


def _first_token(tokenizer: Any) -> int:
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        if token is not None:
            return int(token)
    return 0
