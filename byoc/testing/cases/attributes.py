"""Cases of attribute values that no sample has: each axis, and each choice between two.

A sample is one way to call an operator, and models have the others: a softmax over the first axis, a sum that keeps
its axes, a window that counts its padding. Values of one attribute are tried in turn, in the first sample whose types
and whose kernel take them; one that another sample has is not tried again. The data of an operator along an axis is
turned, so that its own inputs along that axis (a bias) fit as before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from byoc.ir.attrs import Attrs
from byoc.relay.expr import Call, Function
from byoc.testing.cases.large import UNFIT, on_inputs
from byoc.testing.cases.operators import BackendAnswers, is_computed
from byoc.testing.core.case import Arrays, Case

ATTRIBUTES = "attributes"
AXES = ("axis", "axes")
MOST_VALUES = 8  # of the attributes of one operator
Value = bool | int | tuple[int, ...]


def attribute_cases(asked: BackendAnswers, samples: Sequence[Case]) -> Iterator[Case]:
    """For each operator of *samples* a case of each value that its attributes may have and that no sample has."""
    by_operator: dict[str, list[Case]] = {}
    for case in samples:
        if isinstance(case.function.body, Call) and case.function.body.attrs is not None:
            by_operator.setdefault(case.operator, []).append(case)
    for cases in by_operator.values():
        yield from itertools.islice(_of_operator(asked, cases), MOST_VALUES)


def _of_operator(asked: BackendAnswers, cases: Sequence[Case]) -> Iterator[Case]:
    met = {(name, _axes_known(case, value)) for case in cases for name, value in _values(_attrs_of(case))}
    for case in cases:
        for name, value in _others(case):
            if (name, _axes_known(case, value)) in met:
                continue
            made = _changed(asked, case, name, value)
            if made is not None:
                met.add((name, _axes_known(case, value)))
                yield made


def _attrs_of(case: Case) -> Attrs:
    call = case.function.body
    assert isinstance(call, Call)
    attrs: Attrs = call.attrs
    return attrs


def _values(attrs: Attrs) -> Iterator[tuple[str, Value]]:
    """The attributes that are an axis, several, or a choice between two."""
    for place in fields(attrs):
        value = getattr(attrs, place.name)
        is_axes = isinstance(value, tuple) and bool(value) and all(type(v) is int for v in value)
        if isinstance(value, bool) or (place.name in AXES and (type(value) is int or is_axes)):
            yield place.name, value


def _axes_known(case: Case, value: Value) -> Value:
    """*value* with the last axis counted from the end, so that samples of other ranks have the same one."""
    if isinstance(value, bool):
        return value
    ndim = max((a.ndim for a in case.feeds[0]), default=0)
    return _known(value, ndim) if isinstance(value, int) else tuple(_known(v, ndim) for v in value)


def _known(axis: int, ndim: int) -> int:
    return -1 if axis == ndim - 1 else axis


def _others(case: Case) -> Iterator[tuple[str, Value]]:
    """Other values of each attribute: the other choice, each axis from the front, and the first one from the end."""
    ndim = max((a.ndim for a in case.feeds[0]), default=0)
    for name, value in _values(_attrs_of(case)):
        if isinstance(value, bool):
            yield name, not value
        elif isinstance(value, int):
            yield from ((name, axis) for axis in (*range(ndim), -ndim))
        elif len(value) == 1:
            yield from ((name, (axis,)) for axis in (*range(ndim), -ndim))


def _changed(asked: BackendAnswers, case: Case, attribute: str, value: Value) -> Case | None:
    """*case* with *value* for *attribute*; None where its types, the backend or the kernel refuse it."""
    call = case.function.body
    assert isinstance(call, Call)
    name = f"{case.name}, {attribute}={value}"
    for arrays in _given(case, attribute, value):
        try:
            attrs = replace(_attrs_of(case), **{attribute: value})
            function = on_inputs(Function(case.function.params, Call(call.op, call.args, attrs)), arrays)
        except UNFIT:
            continue
        if is_computed(function, arrays) and asked.takes(function, name):
            return replace(case, name=name, kind=ATTRIBUTES, function=function, feeds=(arrays,))
    return None


def _given(case: Case, attribute: str, value: Value) -> Iterator[Arrays]:
    """The inputs of *case*: those of as many axes as the first turned to the new axis, and as they are."""
    arrays, before = case.feeds[0], getattr(_attrs_of(case), attribute)
    if type(value) is int and type(before) is int and arrays:
        ndim = arrays[0].ndim
        if -ndim <= before < ndim and (before - value) % ndim:
            yield tuple(np.moveaxis(a, before, value).copy(order="C") if a.ndim == ndim else a for a in arrays)
    yield arrays


__all__ = ["ATTRIBUTES", "attribute_cases"]
