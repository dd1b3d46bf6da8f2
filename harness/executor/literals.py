"""Python literals as bounded JSON: all that crosses between a benchmark's check and a candidate's process.

What is decoded consists of exactly None, bool, int, float, complex, str, bytes, list, tuple, dict, set and frozenset:
an object of a candidate's own, with comparisons of its own, cannot arrive. Never pickle, marshal or eval.
"""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 64
MAX_NODES = 50_000
# Of keys and set elements: whoever chooses them to collide makes every insertion slower than the one before.
MAX_HASHED = 4_000
# JSON numbers hold these; larger ones go as hexadecimal, whose parsing takes linear time.
PLAIN_INT = 2**53
MAX_INT_DIGITS = 100_000

Tree = Any


class NotLiteral(ValueError):
    """A value, or what claims to be one, that may not cross."""


class TooLarge(NotLiteral):
    """A value of literals that is too deep or has too many parts."""


def dumps(value: object) -> bytes:
    """`value` as JSON; instances of subclasses become plain values of their base.

    Raises:
        NotLiteral: something in it is no literal, or it is too deep or too large.
    """
    return json.dumps(_Encoder().tree(value, 0), separators=(",", ":")).encode()


def decode(tree: Tree) -> Any:
    """The value of a parsed tree.

    Raises:
        NotLiteral: as `loads`.
    """
    return _Decoder().value(tree, 0)


class _Bounded:
    """Counts what one value consists of."""

    def __init__(self) -> None:
        self._nodes = self._hashed = 0

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise TooLarge(f"more than {MAX_DEPTH} levels or {MAX_NODES} parts")


class _Encoder(_Bounded):
    def tree(self, value: object, depth: int) -> Tree:
        self._count(depth)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            number = int.__add__(value, 0)
            return number if -PLAIN_INT < number < PLAIN_INT else ["i", format(number, "x")]
        if isinstance(value, float):
            return ["f", float.hex(value)]
        if isinstance(value, complex):
            return ["c", float.hex(value.real), float.hex(value.imag)]
        if isinstance(value, bytes):
            return ["b", bytes.hex(value)]
        return self._container(value, depth + 1)

    def _container(self, value: object, depth: int) -> Tree:
        # Through the base's own methods: a subclass may hide or change its content.
        if isinstance(value, list):
            return ["l", [self.tree(part, depth) for part in list.__iter__(value)]]
        if isinstance(value, tuple):
            return ["t", [self.tree(part, depth) for part in tuple.__iter__(value)]]
        if isinstance(value, dict):
            return ["d", [[self.tree(key, depth), self.tree(part, depth)] for key, part in dict.items(value)]]
        if isinstance(value, set):
            return ["s", [self.tree(part, depth) for part in set.__iter__(value)]]
        if isinstance(value, frozenset):
            return ["z", [self.tree(part, depth) for part in frozenset.__iter__(value)]]
        raise NotLiteral(f"a value of type {type(value).__name__} is no literal")


class _Decoder(_Bounded):
    def value(self, tree: Tree, depth: int) -> Any:
        self._count(depth)
        if tree is None or isinstance(tree, bool | str | int):
            return tree
        if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
            raise NotLiteral("a part is in no known form")
        tag, parts = tree[0], tree[1:]
        try:
            return self._tagged(tag, parts, depth + 1)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, NotLiteral):
                raise
            raise NotLiteral(f"a part marked {tag[:1]!r} is malformed") from error

    def _tagged(self, tag: str, parts: list[Any], depth: int) -> Any:
        if tag == "c":
            real, imaginary = parts
            return complex(float.fromhex(real), float.fromhex(imaginary))
        (content,) = parts
        match tag:
            case "f":
                return float.fromhex(content)
            case "i" if isinstance(content, str) and len(content) <= MAX_INT_DIGITS:
                return int(content, 16)
            case "b":
                return bytes.fromhex(content)
            case "d" if isinstance(content, list):
                self._hash(len(content))
                return {self.value(key, depth): self.value(part, depth) for key, part in content}
            case "l" | "t" | "s" | "z" if isinstance(content, list):
                return self._sequence(tag, content, depth)
        raise NotLiteral("a part is in no known form")

    def _sequence(self, tag: str, content: list[Any], depth: int) -> Any:
        if tag in "sz":
            self._hash(len(content))
        values = [self.value(part, depth) for part in content]
        return {"l": list, "t": tuple, "s": set, "z": frozenset}[tag](values)

    def _hash(self, n: int) -> None:
        self._hashed += n
        if self._hashed > MAX_HASHED:
            raise NotLiteral(f"more than {MAX_HASHED} keys and set elements")
