"""The machine's operations on sequences as a program names them: how many values each takes, and its settings.

Settings are JSON text, looked at when a program is loaded.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.strict_json import number_of, object_of, read_json, texts_of

MOST_DIMENSIONS = 64
# by operation: the fewest and the most values, and the names of its settings
_OPERATIONS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "sequence.unwrap": (1, 1, ()),
    "sequence.wrap": (1, 1, ()),
    "sequence.any_rank": (1, 1, ()),
    "sequence.empty": (0, 0, ()),
    "sequence.insert": (2, 3, ()),
    "sequence.erase": (2, 2, ()),
    "sequence.at": (2, 2, ()),
    "sequence.length": (1, 1, ()),
    "sequence.concat": (1, 1, ("axis", "new_axis", "empty")),
    "sequence.leading": (2, 2, ("axis",)),
    "sequence.split": (1, 2, ("axis", "keepdims")),
}


@dataclass(frozen=True)
class SequenceSettings:
    """What the graph language's operator has as attributes."""

    axis: int = 0
    new_axis: bool = False
    keepdims: bool = True
    empty: tuple[str, ...] = ()


def check_operation(operation: str, count: int, settings: str) -> None:
    """Raises ArtifactError unless there is such an operation of *count* values with these settings."""
    if operation not in _OPERATIONS or not _OPERATIONS[operation][0] <= count <= _OPERATIONS[operation][1]:
        raise ArtifactError(f"the bytecode has the operation {operation[:80]!r} of {count} values, which there is not")
    settings_of(operation, settings)


@functools.lru_cache(maxsize=1024)
def settings_of(operation: str, text: str) -> SequenceSettings:
    """The settings of *operation* in *text*. Raises ArtifactError for others."""
    where = f"the settings of {operation}"
    fields = object_of(read_json(text.encode(), where), where, _OPERATIONS[operation][2])
    empty = tuple(texts_of(fields.get("empty", []), where))
    if empty:
        numpy_dtype(empty[0])
    if len(empty) > MOST_DIMENSIONS or not all(d.isascii() and d.isdigit() and len(d) < 16 for d in empty[1:]):
        raise ArtifactError(f"{where}: {empty[:8]} is no dtype with sizes")
    new_axis, keepdims = (number_of(fields.get(key, 1), where, 0, 1) for key in ("new_axis", "keepdims"))
    axis = number_of(fields.get("axis", 0), where, -MOST_DIMENSIONS, MOST_DIMENSIONS)
    return SequenceSettings(axis, bool(new_axis), bool(keepdims), empty)
