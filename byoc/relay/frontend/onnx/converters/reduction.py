"""Reductions over axes: an attribute in old opsets, an input in new ones. Source: ONNX Reduce*, ArgMax, ArgMin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dtypes import FLOATS
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import axes_shape, is_of_run
from byoc.relay.frontend.onnx.run_time.list_lengths import declared_rank, less, with_length

Reduction = Callable[[OnnxNode, RelayExpr, Sequence[int], bool], RelayExpr]


def _plain(builder: str) -> Reduction:
    return lambda node, data, axes, keep: getattr(relay, builder)(data, axis=axes, keepdims=keep)


def _extreme(builder: str, of_bools: str) -> Reduction:
    def reduce(node: OnnxNode, data: RelayExpr, axes: Sequence[int], keep: bool) -> RelayExpr:
        name = of_bools if node.dtype(data) == "bool" else builder
        if 0 in (node.shape(data)[a] for a in axes):
            return _of_nothing(node, data, axes, keep, builder)
        result: RelayExpr = getattr(relay, name)(data, axis=axes, keepdims=keep)
        return result

    return reduce


def _of_nothing(node: OnnxNode, data: RelayExpr, axes: Sequence[int], keep: bool, builder: str) -> RelayExpr:
    """The extreme element of an empty set."""
    shape = node.static_dims(data, "reducing an empty tensor")
    kept = [1 if axis in axes else d for axis, d in enumerate(shape) if keep or axis not in axes]
    dtype = node.dtype(data)
    return relay.full(constant(_extreme_number(dtype, builder), dtype), kept, dtype)


def _extreme_number(dtype: str, builder: str) -> bool | float | int:
    """What an empty set has as its extreme: the least value for max, the greatest for min."""
    if dtype == "bool":
        return builder == "min"
    if dtype in FLOATS:
        return np.inf if builder == "min" else -np.inf
    return int(np.iinfo(dtype).max if builder == "min" else np.iinfo(dtype).min)


def _square_sum(node: OnnxNode, data: RelayExpr, axes: Sequence[int], keep: bool) -> RelayExpr:
    return relay.sum(relay.multiply(data, data), axis=axes, keepdims=keep)


def _log_sum_exp(node: OnnxNode, data: RelayExpr, axes: Sequence[int], keep: bool) -> RelayExpr:
    """Shifted by the greatest element, so that it does not overflow; an infinite one is no shift."""
    if 0 in (node.shape(data)[a] for a in axes):
        return relay.log(relay.sum(relay.exp(data), axis=axes, keepdims=keep))
    return relay.logsumexp(data, axis=axes, keepdims=keep)


def _of_floats(reduction: Reduction) -> Reduction:
    """*reduction*, which integers take in float64; the result is cut off towards zero."""

    def reduce(node: OnnxNode, data: RelayExpr, axes: Sequence[int], keep: bool) -> RelayExpr:
        dtype = node.dtype(data)
        if "int" not in dtype:
            return reduction(node, data, axes, keep)
        return relay.cast(reduction(node, relay.cast(data, "float64"), axes, keep), dtype)

    return reduce


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _plain("sum"),
    "ReduceProd": _plain("prod"),
    "ReduceMean": _of_floats(_plain("mean")),  # a sum of integers would wrap around before it is divided
    "ReduceMax": _extreme("max", "any"),
    "ReduceMin": _extreme("min", "all"),
    "ReduceL1": lambda node, data, axes, keep: relay.sum(relay.abs(data), axis=axes, keepdims=keep),
    "ReduceL2": _of_floats(lambda node, data, axes, keep: relay.sqrt(_square_sum(node, data, axes, keep))),
    "ReduceSumSquare": _square_sum,
    "ReduceLogSum": _of_floats(lambda node, data, axes, keep: relay.log(_plain("sum")(node, data, axes, keep))),
    "ReduceLogSumExp": _of_floats(_log_sum_exp),
}


# which have no result where nothing is reduced: for them a matrix of the run gets a column that does not count
_EXTREMES = {"ReduceMax": "max", "ReduceMin": "min", "ReduceLogSumExp": "max"}


def _reduced(reduction: Reduction) -> Callable[[OnnxNode], RelayExpr]:
    def convert(node: OnnxNode) -> RelayExpr:
        if is_of_run(node, 1) and node.shape(node[1]) != (0,):
            return _reduced_at_run_time(node, reduction)
        axes = node.ints(1, "axes", []) if node.value(1) is not None else node.attrs.ints("axes", [])
        rank = node.rank(node[0])
        if not axes and node.attrs.flag("noop_with_empty_axes"):
            return _without_axes(node, reduction)
        chosen = sorted({node.axis(a, rank) for a in axes}) or list(range(rank))
        return reduction(node, node[0], chosen, node.attrs.flag("keepdims", True))

    return convert


def _reduced_at_run_time(node: OnnxNode, reduction: Reduction) -> RelayExpr:
    """The reduction of a matrix's rows, whose columns are the axes that the run is given."""
    form = "ones" if node.attrs.flag("keepdims", True) else "dropped"
    if form == "dropped":
        rank = node.rank(node[0])
        node = with_length(node, 1, less(rank, declared_rank(node)), most=rank)
    data, every = node[0], not node.attrs.flag("noop_with_empty_axes")
    matrix = relay.group_axes(data, node[1], every, node.place)
    if 0 in node.shape(data) and node.op_type in _EXTREMES:
        worst = _extreme_number(node.dtype(data), _EXTREMES[node.op_type])
        matrix = relay.nn.pad(matrix, [(0, 0), (0, 1)], constant(worst, node.dtype(data)))
    rows = reduction(node, matrix, [1], False)
    return relay.reshape(rows, axes_shape(node, data, node[1], form, every), allowzero=True)


def _without_axes(node: OnnxNode, reduction: Reduction) -> RelayExpr:
    """No axis is reduced: each element is the reduction of itself alone, over an axis of size 1."""
    alone = relay.expand_dims(node[0], 0)
    return reduction(node, alone, [0], False)


for _op, _reduction in _REDUCTIONS.items():
    converter(_op)(_reduced(_reduction))


def _arg(builder: str) -> Callable[[OnnxNode], RelayExpr]:
    def convert(node: OnnxNode) -> RelayExpr:
        axis = node.axis(node.attrs.int("axis", 0), node.rank(node[0]))
        position = getattr(relay, builder)(
            node[0],
            axis=[axis],
            keepdims=node.attrs.flag("keepdims", True),
            select_last_index=node.attrs.flag("select_last_index"),
        )
        return relay.cast(position, "int64")

    return convert


converter("ArgMax")(_arg("argmax"))
converter("ArgMin")(_arg("argmin"))
