"""Cases of integers that a float does not hold: beyond 2**24, where float32 ends, and for int64 beyond 2**53.

Samples are small numbers, on which a backend that computes integers in floats gives the right ones. Tried are numbers
near a power of two, the largest first, until the reference overflows nowhere: what wraps, traps or saturates is
nobody's promise. A case is made where the results are others once they, or the inputs, pass through the float.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from byoc.errors import ByocError
from byoc.ir.op import Op, Sample
from byoc.ir.traits import OpKind
from byoc.ir.types import tensor_types
from byoc.relay.expr import Call, Function
from byoc.relay.op.core.builder import takes_dtypes
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.kernels.core.registry import get_kernel
from byoc.testing.cases.operators import BackendAnswers, Inputs, attributes, call_function, is_computed, sample_inputs
from byoc.testing.core.case import CONSTANT, LARGE_INTEGERS, Arrays, Case
from byoc.testing.core.reference import outputs_of

FLOATS = {"int32": ("float32",), "int64": ("float64", "float32")}  # in which each may be computed, the widest first
POWERS = {"int32": (30, 28, 26, 15, 13, 12), "int64": (62, 60, 57, 31, 29, 27, 25, 15, 13)}
RETYPED = ("float32", "int32", "int64")  # samples of which the same is tried in the other types
SPREAD = 3  # how far numbers are from the power at most
NEAR = 2.0**-20  # how far an int64 may be off the result in float64; what wraps is off by 2**64
UNFIT = (ByocError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError)
Places = frozenset[tuple[int, int]]  # an input, and which tensor of it


def large_integer_cases(asked: BackendAnswers, op: Op, seed: int) -> Iterator[Case]:
    """A case of *op* in int32 and one in int64, of the first sample that shows a float; with constant inputs where
    the backend takes no others.
    """
    missing = list(FLOATS)
    for k, sample in enumerate(op.samples):
        for dtype in tuple(missing):
            case = _case(asked, op, sample, (dtype, f"{op.name}[{k}]", seed))
            if case is not None:
                missing.remove(dtype)
                yield case
        if not missing:
            return


def _in_dtype(op: Op, sample: Sample, dtype: str, seed: int) -> tuple[Sample, Inputs, Places] | None:
    """*sample* in the type *dtype*, its inputs, and which of these are any numbers; None where it has no integers.

    An array that a sample gives may be one of indices or lengths, unless it is what the result is made of.
    """
    inputs = sample_inputs(sample, seed)
    first = next(iter(_tensors(inputs)), None)
    if first is None or dtype_name(first.dtype) not in RETYPED:
        return None
    own = dtype_name(first.dtype)
    made: Inputs = [
        [_cast(a, own, dtype) for a in item] if isinstance(item, list) else _cast(item, own, dtype) for item in inputs
    ]
    free = frozenset(
        (k, j)
        for k, item in enumerate(sample.inputs)
        for j, part in enumerate(item if isinstance(item, list) else [item])
        if not isinstance(part, np.ndarray) or k in op.traits.carries or op.traits.kind == OpKind.POINTWISE
    )
    attrs = {name: dtype if value == own else value for name, value in sample.attrs.items()}
    return replace(sample, attrs=attrs), made, free


def _case(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, str, int]) -> Case | None:
    """The case of *sample* in a type, of the largest numbers that are defined and show the widest float."""
    dtype, name, seed = named
    given = _in_dtype(op, sample, dtype, seed)
    if given is None:
        return None
    own, inputs, free = given
    for constants in (frozenset[int](), frozenset(range(1, len(inputs)))):
        text = f"{name}, large {dtype}" + (f", {CONSTANT}" if constants else "")
        try:
            function, _ = call_function(op, attributes(op, own), inputs, constants)
        except UNFIT:
            return None
        if not all(t.is_static for t in tensor_types(function.body.checked_type)) or not asked.takes(function, text):
            continue
        if dtype == "int64" and not _is_exact(op, sample, seed):
            return None
        for number, filled in itertools.product(FLOATS[dtype], _defined(function, own, inputs, free, seed)):
            made, arrays = call_function(op, attributes(op, own), filled, constants)
            through = call_function(op, attributes(op, own), _rounded(filled, number), constants)
            if is_computed(made, arrays) and _shows(outputs_of(made, arrays, False), through, number):
                return Case(text, op.name, LARGE_INTEGERS, made, (arrays,))
        return None
    return None


def _is_exact(op: Op, sample: Sample, seed: int) -> bool:
    """Whether some results of *sample* in int32 are whole: what rounds in int64 looks whole, for its floats are."""
    given = _in_dtype(op, sample, "int32", seed)
    if given is None:
        return False
    own, inputs, free = given
    try:
        function, _ = call_function(op, attributes(op, own), inputs)
    except UNFIT:
        return False
    return next(_defined(function, own, inputs, free, seed), None) is not None


def _defined(function: Function, sample: Sample, inputs: Inputs, free: Places, seed: int) -> Iterator[Inputs]:
    """*inputs* with large numbers whose results are defined, all that are *free* before the first alone."""
    dtype = next(a for a in _tensors(inputs) if a.dtype.name in FLOATS).dtype.name
    for power, places in itertools.product(POWERS[dtype], dict.fromkeys((free, free & {(0, 0)}))):
        filled = _filled(inputs, places, power, seed)
        if places and _is_defined(function, sample, filled, places):
            yield filled


def _filled(inputs: Inputs, places: Places, power: int, seed: int) -> Inputs:
    """*inputs* with those at *places* near 2**power and -2**power."""
    rng = np.random.default_rng(seed + power)

    def near(array: np.ndarray, place: tuple[int, int]) -> np.ndarray:
        if place not in places or array.dtype.kind != "i":
            return array
        numbers = 2**power + rng.integers(-SPREAD, SPREAD + 1, array.shape)
        return np.asarray(numbers * rng.choice([-1, 1], array.shape)).astype(array.dtype)

    return [
        [near(a, (k, j)) for j, a in enumerate(item)] if isinstance(item, list) else near(item, (k, 0))
        for k, item in enumerate(inputs)
    ]


def _is_defined(function: Function, sample: Sample, inputs: Inputs, places: Places) -> bool:
    """Whether the results on *inputs* are whole numbers that nobody rounds or wraps, so that there are no others.

    Asked is the same kernel on Python's integers, and where it takes none in float64, which holds what int32 has. A
    quotient is cut off where code is generated for the type. What takes no floats is asked about its first input
    alone: a shift by a large number is nobody's promise.
    """
    call = function.body
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return False
    own = _kernel_results(call.op, sample, inputs)
    is_cut = call.op.compute is not None and takes_dtypes(call.op, call.attrs, [a.checked_type for a in call.args])
    wide = _kernel_results(call.op, sample, _converted(inputs, "float64"))
    if own is None or (wide is None and len(places) > 1):
        return False
    if wide is not None and not all(np.isfinite(b.astype("float64")).all() for b in wide):
        return False  # a power that Python would take for ever to compute
    exact = _kernel_results(call.op, sample, _converted(inputs, "object"))
    if exact is not None and not any(map(_has_floats, exact)):
        return all(a.tolist() == b.tolist() for a, b in zip(own, exact, strict=True))
    return wide is not None and all(_is_same(a, b, is_cut) for a, b in zip(own, wide, strict=True))


def _has_floats(array: np.ndarray) -> bool:
    return any(isinstance(value, float) for value in array.flat)


def _kernel_results(op: Op, sample: Sample, inputs: Inputs) -> list[np.ndarray] | None:
    """What the kernel gives; None where it refuses, as many do for a dtype that they do not know."""
    attrs = attributes(op, sample)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_kernel(op.kernel)(*inputs, **(attrs.as_dict() if attrs is not None else {}))
    except Exception:  # kernels raise what they please
        return None
    return [np.asarray(a) for a in (found if isinstance(found, (tuple, list)) else [found])]


def _is_same(own: np.ndarray, wide: np.ndarray, is_cut: bool) -> bool:
    """Whether *own* is what *wide*, in float64, says: equal where that is exact, else near, since wrapping goes far."""
    if own.shape != wide.shape:
        return False
    a, b = own.astype("float64"), wide.astype("float64")
    if own.dtype == np.int64:
        return bool((np.abs(a - b) <= NEAR * np.abs(b) + is_cut).all())
    return bool((a == (np.trunc(b) if is_cut else b)).all())


def _shows(own: Sequence[np.ndarray], through: tuple[Function, Arrays], number: str) -> bool:
    """Whether results are others by the float *number*: of the inputs that passed *through* it, or as it gives them."""
    function, arrays = through
    try:
        rounded = outputs_of(function, arrays, False)
    except Exception:  # kernels raise what they please
        return True
    return any(
        a.dtype.kind in "iub" and not np.array_equal(a, _through(b, number)) for a, b in zip(own, rounded, strict=True)
    )


def _rounded(inputs: Inputs, number: str) -> Inputs:
    return [
        [_through(a, number) for a in item] if isinstance(item, list) else _through(item, number) for item in inputs
    ]


def _through(array: np.ndarray, number: str) -> np.ndarray:
    """*array* as it comes back from the float *number*."""
    if array.dtype.kind != "i":
        return array
    with np.errstate(all="ignore"):
        return array.astype(number).astype(array.dtype)


def _converted(inputs: Inputs, dtype: str) -> Inputs:
    return [[_wide(a, dtype) for a in item] if isinstance(item, list) else _wide(item, dtype) for item in inputs]


def _wide(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(dtype) if array.dtype.name in FLOATS else array


def _cast(array: np.ndarray, own: str, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array.astype(dtype) if dtype_name(array.dtype) == own else array


def _tensors(inputs: Inputs) -> Iterator[np.ndarray]:
    for item in inputs:
        yield from item if isinstance(item, list) else [item]
