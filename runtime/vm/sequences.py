"""What the machine does with sequences, which are data of tag 0: elements move from one to another without a copy.

An operation is named as the graph language's operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import numpy as np

from byoc.runtime.core.container import ADT, object_vector
from byoc.runtime.core.errors import UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.kernels.sequences import element_at, erased, inserted, joined, leading, parts
from byoc.runtime.vm.sequence_settings import SequenceSettings, settings_of
from byoc.runtime.vm.values import Value, VMClosure, VMReference


class Entries(Sequence[object]):
    """The entries of an array along its first axis as tensors, made when they are asked for."""

    def __init__(self, array: np.ndarray):
        self.array = array

    @overload
    def __getitem__(self, index: int) -> object: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[object]: ...

    def __getitem__(self, index: int | slice) -> object:
        if isinstance(index, slice):
            return Entries(self.array[index])
        return NDArray(np.asarray(self.array[index]))

    def __len__(self) -> int:
        return len(self.array)


class Stacked(ADT):
    """A sequence whose elements are the entries of one array along its first axis; joining them costs nothing."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        super().__init__(0)
        self.array, self._fields = array, Entries(array)

    def joined(self, axis: int) -> np.ndarray:
        """The elements along a new *axis*."""
        place = axis + self.array.ndim if axis < 0 else axis
        return self.array if place == 0 else np.moveaxis(self.array, 0, place).copy()

    def backward(self) -> Stacked:
        """The elements in the other order."""
        return Stacked(self.array[::-1].copy())


def extended(sequence: Value, more: Stacked, before: bool) -> Value:
    """*sequence* with the elements of *more* at its end, or each one *before* those that are there."""
    made = more.backward() if before else more
    there = _elements(sequence)
    if not there:
        return made
    return ADT(0, [*made, *there] if before else [*there, *made])


def _unwrap(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return to_machine(list(_array(args[0])))


def _wrap(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return NDArray(object_vector([from_machine(element) for element in _elements(args[0])]))


def to_machine(value: object) -> Value:
    """Arrays, and lists of such, as the machine's registers hold them."""
    if isinstance(value, (list, tuple)):
        return ADT(0, [to_machine(element) for element in value])
    return NDArray(np.asarray(value))


def from_machine(value: object) -> object:
    """What :func:`to_machine` was given."""
    return [from_machine(element) for element in value] if isinstance(value, ADT) else _array(value)


def _any_rank(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return ADT(0, [args[0]])


def _empty(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return ADT(0)


def _insert(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return ADT(0, inserted(_elements(args[0]), args[1], *map(_number, args[2:])))


def _erase(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return ADT(0, erased(_elements(args[0]), _number(args[1])))


def _at(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return element_at(_elements(args[0]), _number(args[1]))


def _length(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return NDArray(np.array(len(_elements(args[0])), np.int64))


def _concat(args: Sequence[Value], settings: SequenceSettings) -> Value:
    if isinstance(args[0], Stacked) and len(args[0]) and settings.new_axis:
        return NDArray(args[0].joined(settings.axis))
    arrays = [_array(element) for element in _elements(args[0])]
    return NDArray(joined(arrays, settings.axis, settings.new_axis, settings.empty))


def _split(args: Sequence[Value], settings: SequenceSettings) -> Value:
    sizes = _array(args[1]) if len(args) > 1 else None
    made = parts(_array(args[0]), sizes, settings.axis, settings.keepdims)
    return ADT(0, [NDArray(np.asarray(part, order="C")) for part in made])


def _leading(args: Sequence[Value], settings: SequenceSettings) -> Value:
    return NDArray(leading(_array(args[0]), _array(args[1])))


_KINDS = (NDArray, ADT, VMClosure, VMReference, int)  # of the machine's values


def _elements(value: Value) -> Sequence[Value]:
    if not isinstance(value, ADT):
        raise UserError(f"a sequence is expected, got a {type(value).__name__}")
    return tuple(element for element in value if element is None or isinstance(element, _KINDS))


def _array(value: object) -> np.ndarray:
    if not isinstance(value, NDArray):
        raise UserError(f"a tensor is expected, got a {type(value).__name__}")
    return value.numpy()


def _number(value: Value) -> int:
    array = _array(value)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise UserError(f"a position is one integer, got {array.dtype}{list(array.shape)}")
    return int(array.item())


_OPERATIONS: dict[str, Callable[[Sequence[Value], SequenceSettings], Value]] = {
    "sequence.unwrap": _unwrap,
    "sequence.wrap": _wrap,
    "sequence.any_rank": _any_rank,
    "sequence.empty": _empty,
    "sequence.insert": _insert,
    "sequence.erase": _erase,
    "sequence.at": _at,
    "sequence.length": _length,
    "sequence.concat": _concat,
    "sequence.leading": _leading,
    "sequence.split": _split,
}


def apply(operation: str, args: Sequence[Value], settings: str) -> Value:
    """What *operation* gives for *args*. Raises UserError for values that it does not take."""
    return _OPERATIONS[operation](args, settings_of(operation, settings))
