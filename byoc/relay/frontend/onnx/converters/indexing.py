"""Elements by position: gathers, scatters, sorting, and masks. Source: ONNX Gather-1/11/13 and its relatives.

An index outside its dimension is an error in ONNX. One that is known when importing is refused then; the others are
looked for when the model runs, by ``check_indices`` in front of whoever takes or writes elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Dim
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.converters.lengths import lengths_along
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import along_last, is_of_run
from byoc.relay.frontend.onnx.run_time.list_lengths import declared_rank, less, of_free_length, with_last_size
from byoc.relay.frontend.onnx.run_time.slices import number_of_run
from byoc.relay.narrowing import tensor_type
from byoc.relay.op import sequence
from byoc.relay.op.run_time.leading import LeadingOrderAttrs, leading_order


def _from_front(indices: RelayExpr, size: int | RelayExpr) -> RelayExpr:
    """*indices* with negative ones, which count from the end of *size* elements, made positive, whatever they are."""
    if isinstance(indices, Constant) and isinstance(size, int):
        array = indices.data.numpy()
        return constant(np.where(array < 0, array + size, array).astype(array.dtype))
    infer_expr(indices)
    dtype = tensor_type(indices).dtype
    extent = constant(size, dtype) if isinstance(size, int) else relay.cast(size, dtype)
    return relay.where(relay.less(indices, constant(0, dtype)), relay.add(indices, extent), indices)


def _check_known(node: OnnxNode, sizes: Sequence[Dim]) -> None:
    """Raises ImportModelError for a known index outside its dimension; *sizes* belong to the indices' last axis."""
    known = node.value(1)
    if known is None:
        return
    ends = np.array([size if isinstance(size, int) else np.iinfo(np.int64).max for size in sizes])
    outside = (known < -ends) | (known >= ends)
    if outside.any():
        index, size = known[outside][0], np.broadcast_to(ends, known.shape)[outside][0]
        raise node.error(f"index {index} is outside a dimension of {size}; use one in [{-size}, {size})")


def _positions(node: OnnxNode, axes: Sequence[int]) -> RelayExpr:
    """The indices of *node*, its second input, as positions along *axes* of its first.

    Those that are known are checked now, the others when the model runs.
    """
    data, indices = node[0], node[1]
    shape = node.shape(data)
    sizes = [shape[axis] for axis in axes]
    _check_known(node, sizes)
    name = f"node {node.name} ({node.op_type})"
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != len(sizes):
        return relay.check_indices_like(indices, data, axes, name)
    if isinstance(indices, Constant) and not (indices.data.numpy() < 0).any():
        return indices
    if 0 in sizes and 0 not in node.shape(indices):
        raise node.error(f"the dimension {axes[sizes.index(0)]} of {node.type_of(data)} has no element to take")
    positions = relay.check_indices(indices, known, axes, name)
    return node.fold(positions) if isinstance(indices, Constant) else positions


def _axis(node: OnnxNode, default: int = 0) -> int:
    return node.axis(node.attrs.int("axis", default), node.rank(node[0]))


@converter("Gather")
def _gather(node: OnnxNode) -> RelayExpr:
    axis = _axis(node)
    return relay.take(node[0], _positions(node, [axis]), axis=axis)


@converter("GatherElements")
def _gather_elements(node: OnnxNode) -> RelayExpr:
    axis = _axis(node)
    return relay.gather(node[0], axis, _positions(node, [axis]))


def _coordinates(node: OnnxNode, batch_dims: int = 0) -> RelayExpr:
    """Index tuples from the last dimension to the first, as Relay has them, made positive."""
    shape = node.shape(node[1])
    if not shape or not isinstance(shape[-1], int):
        raise node.error(f"the indices must have a dimension of coordinates, got {node.type_of(node[1])}")
    positive = _positions(node, range(batch_dims, batch_dims + shape[-1]))
    rank = len(shape)
    return node.fold(relay.transpose(positive, axes=[rank - 1, *range(rank - 1)]))


@converter("GatherND")
def _gather_nd(node: OnnxNode) -> RelayExpr:
    batch_dims, free = node.attrs.int("batch_dims", 0), node.rank(node[0]) + node.rank(node[1]) - 1
    node = with_last_size(node, 1, less(free - batch_dims, declared_rank(node)), node.rank(node[0]))
    indices = _coordinates(node, batch_dims)
    rank = node.shape(node[1])[-1]
    assert isinstance(rank, int)  # else _coordinates has refused it
    return relay.gather_nd(node[0], indices, batch_dims=batch_dims, index_rank=rank)


_MODES = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _mode(node: OnnxNode) -> str:
    reduction = node.attrs.string("reduction", "none")
    if reduction not in _MODES:
        raise node.error(f"reduction is one of {', '.join(_MODES)}, got {reduction!r}")
    return _MODES[reduction]


@converter("Scatter", "ScatterElements")
def _scatter_elements(node: OnnxNode) -> RelayExpr:
    axis = _axis(node)
    return relay.scatter_elements(node[0], _positions(node, [axis]), node[2], axis, _mode(node))


@converter("ScatterND")
def _scatter_nd(node: OnnxNode) -> RelayExpr:
    rank = node.rank(node[0])
    node = with_last_size(node, 1, rank + node.rank(node[1]) - 1 - node.rank(node[2]), rank)
    return relay.scatter_nd(node[0], _coordinates(node), node[2], _mode(node))


@converter("TopK")
def _top_k_attribute(node: OnnxNode) -> list[RelayExpr]:
    return _top_k(node, node.attrs.int("k"))


@converter("TopK", since=10)
def _top_k_input(node: OnnxNode) -> list[RelayExpr]:
    k = node.value(1)
    return _top_k(node, _one_number(node, 1) if k is None else int(k.reshape(())))


def _one_number(node: OnnxNode, index: int) -> RelayExpr:
    """Input *index*, one number, whether its list has a known length or not."""
    return relay.reshape(node[index], []) if of_free_length(node, index) else node[index]


def _top_k(node: OnnxNode, k: int | RelayExpr) -> list[RelayExpr]:
    axis = _axis(node, -1)
    size = node.shape(node[0])[axis]
    if isinstance(k, int) and (k < 0 or (isinstance(size, int) and k > size)):
        raise node.error(f"k is {k}, the axis has {size} elements")
    if not isinstance(k, int):
        return _top_k_of_any(node, k, axis)
    if k == 0 and size != 0:  # of Relay's topk a k below 1 means all
        none = relay.strided_slice(node[0], begin=[0], end=[0], strides=[1], axes=[axis])
        return [none, relay.cast(none, "int64")]
    found = relay.topk(
        node[0], k=k, axis=axis, ret_type="both", is_ascend=not node.attrs.flag("largest", True), dtype="int64"
    )
    return [found[0], found[1]]


def _top_k_of_any(node: OnnxNode, k: RelayExpr, axis: int) -> list[RelayExpr]:
    """As many as the run says, at the front of as many as there are."""
    attrs = LeadingOrderAttrs(0, axis, "both", not node.attrs.flag("largest", True), "int64", every=False)
    *found, shape = leading_order(node[0], k, attrs)
    return [sequence.leading(part, shape, axis) for part in found]


@converter("OneHot")
def _one_hot(node: OnnxNode) -> RelayExpr:
    """Indices outside [-depth, depth) give a row of off values."""
    depth = None if is_of_run(node, 1) else int(node.known(1, "depth").reshape(-1)[0])
    dtype = node.dtype(node[2])
    values = node.shape(node[2])
    if (depth or 0) < 0 or len(values) != 1 or (isinstance(values[0], int) and values[0] != 2):
        raise node.error(f"needs a depth from 0 on and two values, got {depth} and {node.type_of(node[2])}")
    axis = node.axis(node.attrs.int("axis", -1), node.rank(node[0]) + 1)
    indices = node[0]
    if not node.dtype(indices).startswith("int"):
        indices = relay.cast(indices, "int64")
    off, on = (
        relay.squeeze(relay.strided_slice(node[2], begin=[k], end=[k + 1], strides=[1]), axis=[0]) for k in (0, 1)
    )
    size: int | RelayExpr = number_of_run(node, 1, "depth", 0) if depth is None else depth
    return relay.one_hot(_from_front(indices, size), node.fold(on), node.fold(off), size, axis, dtype)


@converter("CumSum", "CumProd")
def _scan(node: OnnxNode) -> RelayExpr:
    if is_of_run(node, 1):
        return along_last(node, node[0], node[1], lambda rows: _scanned(node, rows, 1))
    axis = node.axis(int(node.known(1, "axis").reshape(())), node.rank(node[0]))
    return _scanned(node, node[0], axis)


def _scanned(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    scan = relay.cumsum if node.op_type == "CumSum" else relay.cumprod
    backwards = node.attrs.flag("reverse")
    if backwards:
        data = relay.reverse(data, axis)
    result = scan(data, axis=axis, dtype=node.dtype(data), exclusive=node.attrs.flag("exclusive"))
    return relay.reverse(result, axis) if backwards else result


@converter("NonZero")
def _non_zero(node: OnnxNode) -> RelayExpr:
    """``[rank, ?]``: a scalar is taken as one row, as ONNX Runtime does; ONNX's reference gives it no coordinate."""
    data = node[0] if node.rank(node[0]) else relay.expand_dims(node[0], 0)
    return relay.cast(relay.transpose(relay.argwhere(data), axes=[1, 0]), "int64")


@converter("Compress")
def _compress(node: OnnxNode) -> RelayExpr:
    """The elements where the condition holds; their number is known at run time only."""
    axis = _axis(node) if "axis" in node.attrs else None
    data = node[0] if axis is not None else relay.reshape(node[0], [-1])
    chosen = relay.squeeze(relay.argwhere(_within(node, data, axis or 0)), axis=[1])
    return relay.take(data, chosen, axis=axis or 0)


def _within(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    """The condition of a Compress as far as *data* goes along *axis*: what is beyond chooses nothing."""
    condition, length, count = node[1], node.shape(node[1])[0], node.shape(data)[axis]
    if isinstance(count, int):
        if isinstance(length, int) and length <= count:
            return condition
        return relay.strided_slice(condition, begin=[0], end=[count], strides=[1])
    if length == count and not isinstance(length, int) and length.name:
        return condition
    end = relay.take(relay.shape_of(data, "int64"), constant([axis], "int64"), axis=0)
    return relay.strided_slice(condition, constant([0], "int64"), end, constant([1], "int64"))


@converter("ReverseSequence")
def _reverse_sequence(node: OnnxNode) -> RelayExpr:
    time, batch = node.attrs.int("time_axis", 0), node.attrs.int("batch_axis", 1)
    lengths = lengths_along(node, 1, node[0], node.axis(time, node.rank(node[0])))
    return relay.reverse_sequence(node[0], lengths, seq_axis=time, batch_axis=batch)


@converter("Unique")
def _unique(node: OnnxNode) -> list[RelayExpr]:
    """Sorted or in the order found, of the flattened data where no axis is given; how many is known when it runs."""
    is_sorted = node.attrs.flag("sorted", True)
    if "axis" in node.attrs:
        return list(relay.unique_slices(node[0], _axis(node), is_sorted))
    values, first, inverse, _, counts = relay.unique(relay.reshape(node[0], [-1]), is_sorted, True)
    return [values, *(relay.cast(places, "int64") for places in (first, inverse, counts))]
