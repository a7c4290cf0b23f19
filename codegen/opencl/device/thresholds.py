"""From which sizes on one schedule is taken rather than another: constants here, which a device may have measured.

Numbers stand in the code that is made for free sizes, where a call's sizes decide by them; for known sizes they rank
what is tried. What :mod:`byoc.codegen.opencl.tuning.crossover` measured on a device is kept with its settings. The
backend's option ``thresholds`` sets any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from byoc.errors import UserError

NEVER = 1 << 30  # a length or a number that no tensor has: the other schedule always
EXAMPLE = "long_reduction=256,few_outputs=2048"


@dataclass(frozen=True)
class Thresholds:
    """Where the schedules of reductions change over.

    Attributes:
        shortest_tree: points of a row, from which on the row has a work-group and its results a tree in local memory.
        enough_rows: rows side by side, from which on each is a work-item's all the same.
        long_reduction: terms of a sum of products, from which on an output has a work-group.
        few_outputs: outputs, up to which that pays.
    """

    shortest_tree: int = 32
    enough_rows: int = 2048
    long_reduction: int = 256
    few_outputs: int = 2048

    @staticmethod
    def of(given: object, default: Thresholds) -> Thresholds:
        """*default* with what a text, or a mapping of numbers by name, says.

        >>> Thresholds.of("long_reduction=512", Thresholds()).long_reduction
        512

        Raises UserError for a name that there is not, and for what is no number above 0.
        """
        pairs = given if isinstance(given, Mapping) else _pairs(given)
        for name, value in pairs.items():
            if name not in NAMES:
                raise UserError(f"opencl.thresholds: expected names of {', '.join(NAMES)}, got {name!r}")
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= NEVER:
                raise UserError(f"opencl.thresholds: {name} is a number from 1 to {NEVER}, got {value!r}")
        return replace(default, **dict(pairs))

    def to_json(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


NAMES = tuple(f.name for f in fields(Thresholds))
ON_GPUS = Thresholds()
ON_PROCESSORS = Thresholds(shortest_tree=NEVER)  # where a work-item's results fill a vector, and barriers cost most


def _pairs(text: object) -> Mapping[str, object]:
    if not isinstance(text, str):
        raise UserError(f"opencl.thresholds: expected a text like {EXAMPLE!r}, got {text!r}")
    found: dict[str, object] = {}
    for word in filter(None, (w.strip() for w in text.split(","))):
        name, _, number = (part.strip() for part in word.partition("="))
        found[name] = int(number) if number.isascii() and number.isdecimal() else number
    return found
