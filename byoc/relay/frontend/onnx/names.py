"""Names that come from the model: exact where they are only shown, made harmless where they name sizes.

A model's names are any text at all. Value and node names are kept as they are and never evaluated; a dimension's name
(``dim_param``) ends up in generated code as an identifier, so it is made one, distinct from all others.
"""

from __future__ import annotations

import re

_NOT_A_WORD = re.compile(r"[^0-9A-Za-z_]")


class SizeNames:
    """Distinct identifiers for the names of free dimensions; the same name always gets the same identifier."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, name: str) -> str:
        """The identifier for the dimension *name*."""
        if name not in self._given:
            word = _NOT_A_WORD.sub("_", name)
            if not word or word[0].isdigit():
                word = f"d_{word}"
            unique, k = word, 0
            while unique in self._taken:
                k += 1
                unique = f"{word}_{k}"
            self._taken.add(unique)
            self._given[name] = unique
        return self._given[name]


class NodeNames:
    """Names for nodes: their own, or ``Conv_12`` by operator and position where they have none; always distinct."""

    def __init__(self, taken: list[str]):
        self._taken = set(taken)

    def __call__(self, name: str, op_type: str, index: int) -> str:
        """The name of node *index*."""
        if name:
            return name
        unique = f"{op_type}_{index}"
        k = 0
        while unique in self._taken:
            k += 1
            unique = f"{op_type}_{index}_{k}"
        self._taken.add(unique)
        return unique
