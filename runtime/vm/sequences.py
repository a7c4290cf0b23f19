"""What the machine does with sequences, which are data of tag 0: elements move from one to another without a copy.

An operation is named as the graph language's operator; its settings are JSON text, looked at when a program is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.runtime.core.container import ADT, object_vector
from byoc.runtime.core.errors import ArtifactError, UserError
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.core.strict_json import number_of, object_of, read_json, texts_of
from byoc.runtime.kernels.sequences import element_at, erased, inserted, joined, parts

MOST_DIMENSIONS = 64
Value = object  # of the machine's registers
Settings = Mapping[str, object]


def _unwrap(args: Sequence[Value], settings: Settings) -> Value:
    return to_machine(list(_array(args[0])))


def _wrap(args: Sequence[Value], settings: Settings) -> Value:
    return NDArray(object_vector([from_machine(element) for element in _elements(args[0])]))


def to_machine(value: object) -> Value:
    """Arrays, and lists of such, as the machine's registers hold them."""
    if isinstance(value, (list, tuple)):
        return ADT(0, [to_machine(element) for element in value])
    return NDArray(np.asarray(value))


def from_machine(value: Value) -> object:
    """What :func:`to_machine` was given."""
    return [from_machine(element) for element in value] if isinstance(value, ADT) else _array(value)


def _empty(args: Sequence[Value], settings: Settings) -> Value:
    return ADT(0)


def _insert(args: Sequence[Value], settings: Settings) -> Value:
    return ADT(0, inserted(_elements(args[0]), args[1], *map(_number, args[2:])))


def _erase(args: Sequence[Value], settings: Settings) -> Value:
    return ADT(0, erased(_elements(args[0]), _number(args[1])))


def _at(args: Sequence[Value], settings: Settings) -> Value:
    return element_at(_elements(args[0]), _number(args[1]))


def _length(args: Sequence[Value], settings: Settings) -> Value:
    return NDArray(np.array(len(_elements(args[0])), np.int64))


def _concat(args: Sequence[Value], settings: Settings) -> Value:
    arrays = [_array(element) for element in _elements(args[0])]
    axis, empty = settings["axis"], settings["empty"]
    return NDArray(joined(arrays, axis, bool(settings["new_axis"]), empty))  # type: ignore[arg-type]  # as read


def _split(args: Sequence[Value], settings: Settings) -> Value:
    sizes = _array(args[1]) if len(args) > 1 else None
    made = parts(_array(args[0]), sizes, settings["axis"], bool(settings["keepdims"]))  # type: ignore[arg-type]  # as read
    return ADT(0, [NDArray(np.asarray(part, order="C")) for part in made])


def _elements(value: Value) -> Sequence[Value]:
    if not isinstance(value, ADT):
        raise UserError(f"a sequence is expected, got a {type(value).__name__}")
    return tuple(value)  # type: ignore[arg-type]  # of the machine's values


def _array(value: Value) -> np.ndarray:
    if not isinstance(value, NDArray):
        raise UserError(f"a tensor is expected, got a {type(value).__name__}")
    return value.numpy()


def _number(value: Value) -> int:
    array = _array(value)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise UserError(f"a position is one integer, got {array.dtype}{list(array.shape)}")
    return int(array.item())


# by operation: what does it, the fewest and the most values that it takes, and its settings
_OPERATIONS: dict[str, tuple[Callable[[Sequence[Value], Settings], Value], int, int, tuple[str, ...]]] = {
    "sequence.unwrap": (_unwrap, 1, 1, ()),
    "sequence.wrap": (_wrap, 1, 1, ()),
    "sequence.empty": (_empty, 0, 0, ()),
    "sequence.insert": (_insert, 2, 3, ()),
    "sequence.erase": (_erase, 2, 2, ()),
    "sequence.at": (_at, 2, 2, ()),
    "sequence.length": (_length, 1, 1, ()),
    "sequence.concat": (_concat, 1, 1, ("axis", "new_axis", "empty")),
    "sequence.split": (_split, 1, 2, ("axis", "keepdims")),
}


def apply(operation: str, args: Sequence[Value], settings: str) -> Value:
    """What *operation* gives for *args*. Raises UserError for values that it does not take."""
    return _OPERATIONS[operation][0](args, _settings(operation, settings))


def check_operation(operation: str, count: int, settings: str) -> None:
    """Raises ArtifactError unless there is such an operation of *count* values with these settings."""
    if operation not in _OPERATIONS or not _OPERATIONS[operation][1] <= count <= _OPERATIONS[operation][2]:
        raise ArtifactError(f"the bytecode has the operation {operation[:80]!r} of {count} values, which there is not")
    _settings(operation, settings)


@functools.lru_cache(maxsize=1024)
def _settings(operation: str, text: str) -> Settings:
    where = f"the settings of {operation}"
    fields = object_of(read_json(text.encode(), where), where, _OPERATIONS[operation][3])
    found: dict[str, object] = {}
    for key, value in fields.items():
        if key != "empty":
            found[key] = number_of(value, where, -MOST_DIMENSIONS, MOST_DIMENSIONS)
            continue
        empty = texts_of(value, where)
        if empty:
            numpy_dtype(empty[0])
            if len(empty) > MOST_DIMENSIONS or not all(d.isascii() and d.isdigit() and len(d) < 16 for d in empty[1:]):
                raise ArtifactError(f"{where}: {empty} is no dtype with sizes")
        found[key] = empty
    return found
