"""Where a completion ends: end tokens of the base model, and stop strings, which are cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

UNFINISHED_CHARACTER = "\ufffd"


class StopRule:
    """Ends of completions for one tokenizer and one set of stop strings."""

    def __init__(self, tokenizer: Any, end_tokens: Iterable[int], stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(text for text in stop if text)
        # A special token's text is not part of a completion's text, so such a stop string is an end token.
        special = {str(token): number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._end_tokens = frozenset(end_tokens) | {special[text] for text in self._stop if text in special}
        self._last_characters = {text[-1] for text in self._stop}
        self._may_complete: dict[int, bool] = {}

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a completion."""
        return self._end_tokens

    @property
    def strings(self) -> tuple[str, ...]:
        """Texts that end a completion and are cut off."""
        return self._stop

    def is_end(self, tokens: list[int]) -> bool:
        """Whether the last of `tokens` ends the completion."""
        if tokens[-1] in self._end_tokens:
            return True
        if not self._stop or not self._may_complete_stop(tokens[-1]):
            return False
        text = self._decode(tokens)
        return any(stop in text for stop in self._stop)

    def text(self, tokens: list[int]) -> str:
        """The completion's text: without end token, cut before the first stop string."""
        if tokens and tokens[-1] in self._end_tokens:
            tokens = tokens[:-1]
        text = self._decode(tokens)
        found = [at for at in (text.find(stop) for stop in self._stop) if at >= 0]
        text = text[: min(found)] if found else text
        return text.encode("utf-8", errors="replace").decode("utf-8")

    def _may_complete_stop(self, token: int) -> bool:
        # Decoding every row at every step costs more than a step of a small model; one token's text decides mostly.
        known = self._may_complete.get(token)
        if known is None:
            text = self._decode([token])
            known = (
                UNFINISHED_CHARACTER in text
                or any(last in text for last in self._last_characters)
                or any(last.isspace() for last in self._last_characters)
            )
            self._may_complete[token] = known
        return known

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))
