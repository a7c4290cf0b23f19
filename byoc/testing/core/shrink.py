"""Smaller cases from a case: one setting, one output, fewer operators, smaller sizes, defaults, simple numbers.

Values inside are those that the reference computes in the case's own types, so that any of them can stand as an input
of what reads it. A candidate whose types do not fit is left out.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from byoc.errors import ByocError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Constant, Function, Tuple, Var
from byoc.relay.traverse import dataflow_children, post_order, rewrite, substitute
from byoc.runtime.core.ndarray import dtype_name
from byoc.testing.core.case import Arrays, Case, constant, function_of
from byoc.testing.core.reduction import Shrink, simple_arrays, smaller_sizes
from byoc.testing.core.reference import node_values

UNFIT = (ByocError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError)
MOST_ELEMENTS = 100_000  # beyond which arrays are not made simpler, only smaller


def one_setting(case: Case) -> Iterator[Case]:
    """One set of inputs instead of several, with types of its sizes."""
    if len(case.feeds) > 1 or not all(t.is_static for p in case.function.params for t in tensor_types(p.checked_type)):
        for feed in case.feeds:
            yield from _made(partial(_mapped, case, feed, _unchanged))


def one_output(case: Case) -> Iterator[Case]:
    """One of several outputs alone."""
    body = case.function.body
    if isinstance(body, Tuple):
        for field in body.fields:
            yield from _made(partial(_over, case, field, {}))


def cut(case: Case) -> Iterator[Case]:
    """A value inside becomes an input, late ones first; then any value inside as the only output."""
    body = case.function.body
    inner = [n for n in post_order(body, dataflow_children) if isinstance(n, Call) and n is not body]
    inner = [n for n in inner if isinstance(n.checked_type, TensorType)]
    if not inner or not case.feeds:
        return
    values = node_values(case.function, case.feeds[0], False)
    for node in reversed(inner):
        value = values[node]
        assert isinstance(value, np.ndarray)
        yield from _made(partial(_over, case, body, {node: value}))
    for node in inner:
        yield from _made(partial(_over, case, node, {}))


def fewer_attributes(case: Case) -> Iterator[Case]:
    """An attribute at its default."""
    for node in post_order(case.function.body, dataflow_children):
        if isinstance(node, Call) and isinstance(node.op, Op) and isinstance(node.attrs, Attrs):
            for field in dataclasses.fields(node.attrs):
                usual = field.default
                if usual is not dataclasses.MISSING and usual != getattr(node.attrs, field.name):
                    yield from _made(partial(_with_attribute, case, node, field.name, usual))


def fewer_elements(case: Case) -> Iterator[Case]:
    """Every axis of one size cut to a smaller one, in all inputs and constants together; then one axis alone."""
    if len(case.feeds) != 1:
        return
    arrays = [*case.feeds[0], *(c.data.numpy() for c in _constants(case))]
    for size in sorted({s for a in arrays for s in a.shape if s > 1}, reverse=True):
        for smaller in smaller_sizes(size):
            yield from _made(partial(_mapped, case, case.feeds[0], partial(_cut_axes, size, smaller)))
    for number, array in enumerate(arrays):
        for axis, size in enumerate(array.shape):
            for smaller in smaller_sizes(size):
                index = (slice(None),) * axis + (slice(smaller),)
                yield from _made(partial(_mapped_at, case, number, operator.itemgetter(index)))


def simpler_numbers(case: Case) -> Iterator[Case]:
    """Each array as zeros, as ones, counting up, or rounded; small ones element by element."""
    if len(case.feeds) != 1:
        return
    for number, array in enumerate([*case.feeds[0], *(c.data.numpy() for c in _constants(case))]):
        is_index = array.dtype.kind in "iu" and array.dtype.itemsize > 1  # whose numbers mean places
        if array.dtype.hasobject or is_index or array.size > MOST_ELEMENTS:
            continue
        for simple in simple_arrays(array):
            if simple.tobytes() == array.tobytes():
                break  # what follows is less simple than what is there: to offer it would go round in circles
            yield from _made(partial(_mapped_at, case, number, partial(_instead, simple)))


SHRINKS: Sequence[Shrink[Case]] = (
    one_setting,
    one_output,
    cut,
    fewer_elements,
    fewer_attributes,
    simpler_numbers,
)


def _made(make: Callable[[], Case]) -> Iterator[Case]:
    try:
        yield make()
    except UNFIT:
        return


def _constants(case: Case) -> list[Constant]:
    return [n for n in post_order(case.function.body, dataflow_children) if isinstance(n, Constant)]


def _unchanged(value: np.ndarray) -> np.ndarray:
    return value


def _instead(simple: np.ndarray, value: np.ndarray) -> np.ndarray:
    return simple


def _cut_axes(size: int, smaller: int, value: np.ndarray) -> np.ndarray:
    return value[tuple(slice(smaller if s == size else None) for s in value.shape)]


def _over(case: Case, body: RelayExpr, given: dict[RelayExpr, np.ndarray]) -> Case:
    """*case* with another body, in which the nodes of *given* are inputs of these values."""
    replaced: dict[RelayExpr, RelayExpr] = {}
    values: dict[Var, np.ndarray] = {}
    for node, value in given.items():
        name = _fresh("v", {p.name_hint for p in case.function.params})
        var = Var(name, TensorType(value.shape, dtype_name(value.dtype)))
        replaced[node], values[var] = var, value
    new_body = substitute(body, replaced)
    used = {n for n in post_order(new_body) if isinstance(n, Var)}
    params, feeds = _kept(case, used)
    feeds = tuple((*feed, *values.values()) for feed in feeds[: 1 if values else None])
    return replace(case, function=function_of([*params, *values], new_body), feeds=feeds)


def _kept(case: Case, used: set[Var]) -> tuple[list[Var], tuple[Arrays, ...]]:
    """The parameters that are used, and what they are given."""
    places: list[int] = []
    at = 0
    params = []
    for param in case.function.params:
        count = len(tensor_types(param.checked_type))
        if param in used:
            params.append(param)
            places += range(at, at + count)
        at += count
    return params, tuple(tuple(feed[k] for k in places) for feed in case.feeds)


def _fresh(base: str, taken: set[str]) -> str:
    return next(name for k in range(len(taken) + 1) if (name := f"{base}{k}") not in taken)


def _with_attribute(case: Case, node: Call, name: str, value: object) -> Case:
    changed = Call(node.op, node.args, replace(node.attrs, **{name: value}), None, node.span)
    return replace(case, function=_function(case.function.params, substitute(case.function.body, {node: changed})))


def _function(params: Sequence[Var], body: RelayExpr) -> Function:
    return function_of(params, body)


def _mapped_at(case: Case, number: int, change: Callable[[np.ndarray], np.ndarray]) -> Case:
    """One array changed: those of the inputs count first, then the constants in their order."""
    feed, constants = case.feeds[0], _constants(case)
    if number < len(feed):
        return _mapped(case, tuple(change(a) if k == number else a for k, a in enumerate(feed)), _unchanged)
    chosen = constants[number - len(feed)]
    return _mapped(case, feed, lambda a: change(a) if a is chosen.data.numpy() else a)


def _mapped(case: Case, feed: Arrays, change: Callable[[np.ndarray], np.ndarray]) -> Case:
    """*case* on one setting: its arrays and constants after *change*, its parameters with their types."""
    arrays = tuple(np.asarray(change(a), order="C") for a in feed)
    if any(not isinstance(p.checked_type, TensorType) for p in case.function.params):
        raise ValueError("tuples as parameters stay as they are")
    params = [
        Var(p.name_hint, TensorType(a.shape, dtype_name(a.dtype)))
        for p, a in zip(case.function.params, arrays, strict=True)
    ]
    new: dict[RelayExpr, RelayExpr] = dict(zip(case.function.params, params, strict=True))

    def over(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Constant):
            return constant(change(before.data.numpy()))
        if before in new:
            return new[before]
        if type(after) is Call and after is before:
            return Call(after.op, after.args, after.attrs, None, after.span)
        return after

    body = rewrite(case.function.body, over, dataflow_children)
    return replace(case, function=function_of(params, body), feeds=(arrays,))
