"""Operators that make one element of many."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.relay.onnx_writer.graph import element_type
from byoc.relay.onnx_writer.rules import Rule, Written, needs

_BY_SUM = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def reduce(at: Written) -> str:
    """Over axes, or over all."""
    axes = axes_of(at)
    needs(axes or not at.type(0).shape, "a reduction over no axis")
    name = _BY_SUM[at.operator]
    needs(0 not in at.type(0).shape, "a reduction of nothing, which ONNX leaves open")
    keep = int(bool(at.attrs.keepdims))
    if not axes:
        return at.value("Identity", at.names[0])
    return at.value(name, at.names[0], at.graph.constant(axes), keepdims=keep)


def arg_reduce(at: Written) -> str:
    """The first place, or the last, along one axis."""
    axes = axes_of(at)
    needs(len(axes) == 1, "the place of the largest over several axes")
    needs(0 not in at.type(0).shape, "a reduction of nothing, which ONNX leaves open")
    name = "ArgMax" if at.operator == "argmax" else "ArgMin"
    last = int(bool(getattr(at.attrs, "select_last_index", False)))
    found = at.value(name, at.names[0], axis=axes[0], keepdims=int(bool(at.attrs.keepdims)), select_last_index=last)
    return found if at.result.dtype == "int64" else at.value("Cast", found, to=element_type(at.result.dtype))


def axes_of(at: Written) -> list[int]:
    """The axes over which a reduction goes."""
    rank, given = len(at.type(0).shape), at.attrs.axis
    if given is None or (isinstance(given, (tuple, list)) and not given):
        named = list(range(rank))
    else:
        named = [int(a) % rank for a in (given if isinstance(given, (tuple, list)) else [given])]
    if getattr(at.attrs, "exclude", False):
        return [axis for axis in range(rank) if axis not in named]
    return sorted(set(named))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_BY_SUM, reduce),
    "argmax": arg_reduce,
    "argmin": arg_reduce,
}
