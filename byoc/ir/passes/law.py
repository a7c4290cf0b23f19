"""The law of a pass: the equality of functions on which it rests, and how near the numbers stay.

A pass that keeps a model's meaning says why in one sentence, where it says its name (``PassInfo(law=...)``). Tests run
each pass that has a law over generated modules and hold the outputs to what the law promises; a pass of the pipeline
without one fails them. A pass that changes what is computed, as one that makes gradients, has no law.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Numbers(enum.Enum):
    """How near the outputs after a pass are to those before it."""

    BITS = "the same bits"
    ROUNDING = "the same but for the order of roundings; an integer that was rounded may be its neighbour"
    NEAR = "near, as the pass says: by a polynomial, or in a narrower type"


@dataclass(frozen=True)
class Law:
    """*says* is the equality in one sentence or formula, *numbers* what it promises of the outputs.

    Raises:
        ValueError: *says* is empty.
    """

    says: str
    numbers: Numbers = Numbers.BITS

    def __post_init__(self) -> None:
        if not self.says.strip():
            raise ValueError("a law says which equality a pass rests on, in one sentence; got an empty text")

    def __str__(self) -> str:
        return f"{self.says} ({self.numbers.value})"
