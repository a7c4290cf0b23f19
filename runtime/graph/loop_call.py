"""A graph that is the body of a loop: which outputs of a run are inputs of the next, and what the runs collect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Kind = tuple[tuple[int, ...], np.dtype]  # the shape and the dtype of an array


@dataclass(frozen=True)
class LoopCall:
    """How runs of a graph follow each other; inputs and outputs by position.

    Attributes:
        going: the output, one boolean, that says whether there is another run.
        carried: pairs of an input and the output that it gets for the next run.
        kept: outputs of which the last run's value is wanted.
        collected: outputs of which every run's value is wanted, none of them twice.
    """

    going: int
    carried: tuple[tuple[int, int], ...]
    kept: tuple[int, ...]
    collected: tuple[int, ...]


@dataclass(frozen=True)
class LoopResult:
    """What the runs of a loop gave, in new arrays.

    Attributes:
        kept: the last run's outputs, in the order of the call.
        collected: for each collected output the values of all runs, along a new first axis.
    """

    kept: Sequence[np.ndarray]
    collected: Sequence[np.ndarray]
