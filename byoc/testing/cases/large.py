"""Larger cases: the same operators on tensors of several thousand elements, whose sizes no tile divides.

Samples are small, so that what goes wrong beyond a block, a tile or a thread's share is not seen on them. Axes of one
size grow together, to primes, as long as the types fit, until the result, or where that cannot grow an input, has
``LEAST`` elements. Of what an operator reduces, so that the result stays as small as it is, one case has as many as
``LONG``: products and sums go over such an axis in blocks, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from byoc.errors import ByocError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op
from byoc.ir.traits import OpKind
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Constant, Function, Var
from byoc.relay.traverse import dataflow_children, post_order, rewrite, substitute
from byoc.runtime.core.ndarray import dtype_name
from byoc.testing.cases.operators import BackendAnswers, is_computed
from byoc.testing.core.case import Arrays, Case, constant, function_of
from byoc.testing.core.difference import is_float

LARGE = "large tensors"
DEEP = "long sums"
LEAST, MOST = 5_000, 40_000  # elements of the result; of an input at most as many too
LONG = 277  # elements of the axis that a result has not; no block of a power of two divides it
SUMMING = (OpKind.PRODUCT, OpKind.REDUCTION)
MOST_WORK = 6_000_000  # operations of the call, where the operator counts them
PRIMES = (
    *(5, 7, 11, 13, 17, 19, 23, 29, 37, 43, 53, 61, 71, 83, 97, 113, 131, 151, 173, 199, 229, 263, 307, 353, 409, 541),
    *(727, 1009, 1361, 1801, 2411, 3203, 4261, 5669, 7537),
)
UNFIT = (ByocError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError)
Grown = tuple[Function, Arrays]
Size = Callable[[int], int]


def large_cases(asked: BackendAnswers, cases: Sequence[Case]) -> Iterator[Case]:
    """One larger case of each operator of *cases*, which are its samples: the first that grows and is taken."""
    met: set[str] = set()
    for case in cases:
        if case.operator not in met:
            found = grown(case.function, case.feeds[0])
            name = f"{case.name}, large"
            if found is not None and asked.takes(found[0], name) and is_computed(*found):
                met.add(case.operator)
                yield replace(case, name=name, kind=LARGE, function=found[0], feeds=(found[1],))


def deep_cases(asked: BackendAnswers, cases: Sequence[Case]) -> Iterator[Case]:
    """One case of each operator of *cases*, which are its samples, with a longer axis that its result has not."""
    met: set[str] = set()
    for case in cases:
        if case.operator not in met and OPS[case.operator].traits.kind in SUMMING:
            found = deepened(case.function, case.feeds[0])
            name = f"{case.name}, long"
            if found is not None and asked.takes(found[0], name) and is_computed(*found):
                met.add(case.operator)
                yield replace(case, name=name, kind=DEEP, function=found[0], feeds=(found[1],))


def deepened(function: Function, arrays: Arrays) -> Grown | None:
    """*function* with ``LONG`` in the place of a size that makes inputs larger and no result; None where none does."""
    for places in _equal_axes(arrays):
        shapes = [
            tuple(LONG if (k, axis) in places else size for axis, size in enumerate(a.shape))
            for k, a in enumerate(arrays)
        ]
        if max(map(math.prod, shapes)) > MOST:
            continue
        new = tuple(_of_shape(a, shape, k) for k, (a, shape) in enumerate(zip(arrays, shapes, strict=True)))
        try:
            trial = (on_inputs(function, new), new)
        except UNFIT:
            continue
        if _counts(trial[0])[0] == _counts(function)[0] and _is_moderate(*trial):
            return trial
    return None


def _equal_axes(arrays: Arrays) -> Iterator[set[tuple[int, int]]]:
    """Sets of (input, axis) of one size, of more than 1: all that have it, then pairs of the first two inputs."""
    axes = [((k, axis), size) for k, a in enumerate(arrays) for axis, size in enumerate(a.shape) if size > 1]
    for size in sorted({size for _, size in axes}, reverse=True):
        yield {place for place, own in axes if own == size}
    for (place, size), (other, own) in itertools.product(axes, axes):
        if (place[0], other[0]) == (0, 1) and size == own:
            yield {place, other}


def on_inputs(function: Function, arrays: Arrays) -> Function:
    """*function* on parameters like *arrays*. Raises what its types raise."""
    params = _params_like(function, arrays)
    given: dict[RelayExpr, RelayExpr] = dict(zip(function.params, params, strict=True))
    return function_of(params, substitute(function.body, given))


def _params_like(function: Function, arrays: Arrays) -> list[Var]:
    return [
        Var(p.name_hint, TensorType(a.shape, dtype_name(a.dtype))) for p, a in zip(function.params, arrays, strict=True)
    ]


def grown(function: Function, arrays: Arrays) -> Grown | None:
    """*function* on larger inputs, and these; None where its types let none grow as far.

    What makes the result larger grows until that is large; what makes inputs alone larger once, and further where the
    result stays small whatever the inputs are, as a sum's.
    """
    found: Grown = (function, arrays)
    at = {s: s for s in _sizes(function, arrays) if s > 1}  # what became of each size
    for is_last in (False, True):
        left = sorted(at, reverse=True)
        while left and not _is_large(found[0], is_last):
            for size in list(left):
                step = next((q for q in PRIMES if q > 1.6 * at[size] and q not in at.values()), None)
                trial = None if step is None else _tried(function, arrays, {**at, size: step})
                more = (0, 0) if trial is None else _increase(trial[0], found[0])
                if trial is None or step is None or more[0] < 0 or more == (0, 0):
                    left.remove(size)
                    continue
                found, at[size] = trial, step
                if more[0] == 0 and not is_last:
                    left.remove(size)
                if _is_large(found[0], is_last):
                    break
    return found if _is_large(found[0], True) else None


def _is_large(function: Function, with_inputs: bool) -> bool:
    outputs, inputs = _counts(function)
    return max((*outputs, *inputs) if with_inputs else outputs, default=0) >= LEAST


def _increase(after: Function, before: Function) -> tuple[int, int]:
    """By how many elements the results are larger, and the inputs."""
    outputs, inputs = (sum(a) - sum(b) for a, b in zip(_counts(after), _counts(before), strict=True))
    return outputs, max(inputs, 0)


def _tried(function: Function, arrays: Arrays, at: dict[int, int]) -> Grown | None:
    """*function* with its sizes as in *at*: those of tensors alone, else those in attributes too."""

    def size(before: int) -> int:
        return at.get(before, before)

    for change in (_same, size):
        try:
            made = _resized(function, arrays, size, change)
        except UNFIT:
            continue
        if _is_moderate(made[0], made[1]):
            return made
    return None


def _same(size: int) -> int:
    return size


def _resized(function: Function, arrays: Arrays, size: Size, attribute: Size) -> Grown:
    new = tuple(_filled(a, size, k) for k, a in enumerate(arrays))
    params = _params_like(function, new)
    given: dict[RelayExpr, RelayExpr] = dict(zip(function.params, params, strict=True))

    def over(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Constant):
            return constant(_filled(before.data.numpy(), size, 0))
        if before in given:
            return given[before]
        if isinstance(after, Call):
            return Call(after.op, after.args, _with_sizes(after.attrs, attribute), None, after.span)
        return after

    return function_of(params, rewrite(function.body, over, dataflow_children)), new


def _with_sizes(attrs: Attrs | None, size: Size) -> Attrs | None:
    """*attrs* with the numbers in its tuples that are sizes made larger."""
    if attrs is None:
        return None
    changed = {}
    for place in fields(attrs):
        value = getattr(attrs, place.name)
        if isinstance(value, tuple) and value and all(type(v) is int for v in value):
            changed[place.name] = tuple(map(size, value))
    return replace(attrs, **changed) if changed else attrs


def _filled(array: np.ndarray, size: Size, seed: int) -> np.ndarray:
    """An array like *array* with larger axes: new floats between its own, its other elements again."""
    return _of_shape(array, tuple(size(s) for s in array.shape), seed)


def _of_shape(array: np.ndarray, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if shape == array.shape:
        return array
    if is_float(array.dtype) and array.size:
        numbers = array.astype("float64")
        low, high = float(numbers.min()), float(numbers.max())
        if math.isfinite(low) and math.isfinite(high):
            return np.random.default_rng(seed).uniform(low, high, shape).astype(array.dtype)
    return np.resize(array, shape)


def _sizes(function: Function, arrays: Arrays) -> set[int]:
    constants = [n.data.numpy() for n in post_order(function.body, dataflow_children) if isinstance(n, Constant)]
    return {s for a in (*arrays, *constants) for s in a.shape}


def _counts(function: Function) -> tuple[list[int], list[int]]:
    """The elements of the results, and of the inputs; -1 for what is not known."""
    both = ([function.body.checked_type], [p.checked_type for p in function.params])
    outputs, inputs = (
        [math.prod(t.concrete_shape) if t.is_static else -1 for ty in types for t in tensor_types(ty)] for types in both
    )
    return outputs, inputs


def _is_moderate(function: Function, arrays: Arrays) -> bool:
    outputs, inputs = _counts(function)
    if min((*outputs, *inputs), default=0) < 0 or max((*outputs, *inputs), default=0) > MOST:
        return False
    return _work(function) <= MOST_WORK


def _work(function: Function) -> int:
    return sum(
        n.op.count_operations(n.attrs, [a.checked_type for a in n.args], n.checked_type)
        for n in post_order(function.body, dataflow_children)
        if isinstance(n, Call) and isinstance(n.op, Op) and n.op.operations is not None
    )
