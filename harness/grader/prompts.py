"""From a hidden item to the prompt that the inference service gets."""

from __future__ import annotations

from harness.domain.prompts import Message, Prompt
from harness.domain.specs import PromptSpec
from harness.inference.wire import Sampling

PLACE = "{question}"


def build_prompt(spec: PromptSpec, question: str) -> Prompt:
    """The prompt of one item: a chat, or one plain text where the benchmark says `chat: false`."""
    return Prompt(messages=_messages(spec, question)) if spec.chat else Prompt(text=_text(spec, question))


def sampling_of(spec: PromptSpec, seed: int) -> Sampling:
    """How completions are drawn under this protocol."""
    return Sampling(
        max_tokens=spec.max_tokens,
        temperature=spec.temperature,
        stop=spec.stop,
        seed=seed,
        repetition_guard=spec.repetition_guard,
    )


def _asked(spec: PromptSpec, question: str) -> str:
    # Not str.format: questions and templates may hold braces of their own.
    return spec.prompt.replace(PLACE, question)


def _messages(spec: PromptSpec, question: str) -> tuple[Message, ...]:
    messages = [Message(role="system", content=spec.system)] if spec.system else []
    for shot in spec.few_shot:
        messages.append(Message(role="user", content=_asked(spec, shot.question)))
        messages.append(Message(role="assistant", content=shot.answer))
    messages.append(Message(role="user", content=_asked(spec, question)))
    return tuple(messages)


def _text(spec: PromptSpec, question: str) -> str:
    """Blocks with a blank line between them; a worked example is its prompt with the answer behind it."""
    blocks = [spec.system] if spec.system else []
    for shot in spec.few_shot:
        asked = _asked(spec, shot.question)
        blocks.append(asked + ("" if asked[-1:].isspace() else " ") + shot.answer)
    blocks.append(_asked(spec, question))
    return "\n\n".join(blocks)
