"""What the virtual machine's registers hold, and how a caller's arguments become that.

A tensor is an NDArray, a tuple or algebraic data an :class:`ADT`; numbers that only the machine sees are ints.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.container import ADT
from byoc.runtime.core.errors import InputError
from byoc.runtime.core.ndarray import NDArray, from_any, numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.strings import as_strings
from byoc.runtime.vm.program import ParamType, VMFunction


class VMClosure:
    """A function with the values that it captured. Source: ``VMClosure`` of Relay's machine."""

    __slots__ = ("captured", "function")

    def __init__(self, function: VMFunction, captured: tuple[Value, ...]):
        self.function, self.captured = function, captured

    def __repr__(self) -> str:
        return f"VMClosure({self.function.name})"


class VMReference:
    """A mutable cell."""

    __slots__ = ("value",)

    def __init__(self, value: Value):
        self.value = value


Value = NDArray | ADT | VMClosure | VMReference | int | None
_KINDS = {bool: "bool", int: "int32", float: "float32"}  # the dtypes that Relay gives to Python's numbers


def argument(name: str, given: object, ty: ParamType, sizes: Sizes) -> Value:
    """*given* as a register holds it, checked against the type of parameter *name*.

    *sizes* collects what named dimensions are. Raises InputError naming the input, what is expected and what was found.
    """
    if isinstance(ty, tuple):
        fields = list(given) if isinstance(given, (ADT, list, tuple)) else None
        if fields is None or len(fields) != len(ty):
            found = f"{len(fields)} fields" if fields is not None else f"a {type(given).__name__}"
            raise InputError(f"input {name!r}: expected a tuple of {len(ty)} fields, got {found}")
        return ADT(0, [argument(f"{name}[{k}]", f, t, sizes) for k, (f, t) in enumerate(zip(fields, ty, strict=True))])
    if ty is None:
        return untyped(name, given)
    array = _tensor(name, given, ty)
    ty.bind(array.numpy(), sizes)
    return array


def unchecked_argument(name: str, given: object, ty: ParamType) -> Value:
    """As :func:`argument`, for a program that does not check its inputs: shapes and dtypes may be any.

    Numbers and sequences still take the dtype of *ty*. Where a tensor is declared, a list of one tensor stands for it.
    Raises InputError for what is neither a tensor nor data.
    """
    if isinstance(ty, tuple) and isinstance(given, (ADT, list, tuple)) and len(given) == len(ty):
        pairs = enumerate(zip(given, ty, strict=True))
        return ADT(0, [unchecked_argument(f"{name}[{k}]", field, t) for k, (field, t) in pairs])
    if not isinstance(ty, TensorSpec):
        return untyped(name, given)
    if isinstance(given, (ADT, list, tuple)) and len(given) == 1 and isinstance(given[0], (NDArray, np.ndarray)):
        given = given[0]
    return _tensor(name, given, ty)


def _tensor(name: str, given: object, ty: TensorSpec) -> NDArray:
    """*given* as a tensor; numbers and sequences, which have no dtype, take that of *ty* where it holds their kind."""
    if isinstance(given, NDArray):
        return given if ty.dtype != "string" else NDArray(as_strings(name, given.numpy()))
    if isinstance(given, (ADT, VMClosure, VMReference)):
        raise InputError(f"input {name!r}: expected a tensor, got a {type(given).__name__}")
    try:
        array = np.asarray(from_any(given))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"input {name!r}: a {type(given).__name__} is no array ({error})") from error
    wanted = numpy_dtype(ty.dtype)
    if ty.dtype == "string":
        return NDArray(as_strings(name, array))
    if isinstance(given, (bool, int, float, list, tuple)) and np.can_cast(array.dtype, wanted, "same_kind"):
        array = array.astype(wanted)
    return NDArray(array)


def untyped(name: str, given: object) -> Value:
    """*given* as a register holds it where the parameter's type is none of tensors: data, functions, references.

    Raises InputError for what is neither. Data may be nested as deep as memory allows.
    """
    done: dict[int, Value] = {}
    stack: list[tuple[object, Sequence[object] | None]] = [(given, None)]
    while stack:
        value, inner = stack.pop()
        if id(value) in done:
            continue
        if inner is not None:
            tag = value.tag if isinstance(value, ADT) else 0
            done[id(value)] = ADT(tag, [done[id(part)] for part in inner])
        elif isinstance(value, (ADT, list, tuple)):
            parts = list(value)
            stack.append((value, parts))
            stack.extend((part, None) for part in parts)
        else:
            done[id(value)] = _leaf(name, value)
    return done[id(given)]


def _leaf(name: str, value: object) -> Value:
    if isinstance(value, (NDArray, VMClosure, VMReference)):
        return value
    if type(value) in _KINDS:
        return NDArray(np.asarray(value, _KINDS[type(value)]))
    if isinstance(value, (np.ndarray, numbers.Number, np.generic)) or hasattr(value, "__dlpack__"):
        return NDArray(np.asarray(from_any(value)))
    raise InputError(f"input {name!r}: a {type(value).__name__} is neither a tensor nor data")
