"""Shapes as values, and reshapes of every kind. What is known of a shape when importing becomes a constant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode, SingleSlice
from byoc.relay.frontend.onnx.registry import converter


@converter("Shape")
def _shape(node: OnnxNode) -> RelayExpr:
    shape = node.shape(node[0])
    rank = len(shape)
    start = _clamped(node.attrs.int("start", 0), rank)
    end = _clamped(node.attrs.int("end", rank), rank)
    chosen = shape[start:end]
    if all(isinstance(d, int) for d in chosen):
        return constant(np.array(chosen, "int64"))
    sizes = relay.shape_of(node[0], "int64")
    if (start, end) == (0, rank):
        return sizes
    return relay.strided_slice(sizes, begin=[start], end=[max(end, start)], strides=[1])


def _clamped(position: int, rank: int) -> int:
    return min(max(position + rank if position < 0 else position, 0), rank)


@converter("Size")
def _size(node: OnnxNode) -> RelayExpr:
    shape = node.shape(node[0])
    if all(isinstance(d, int) for d in shape):
        return constant(np.array(math.prod(map(int, shape)), "int64"))
    return relay.prod(relay.shape_of(node[0], "int64"), axis=[0])


@converter("Reshape")
def _reshape_attribute(node: OnnxNode) -> RelayExpr:
    return _static_reshape(node, node.attrs.ints("shape"))


@converter("Reshape", since=5)
def _reshape(node: OnnxNode) -> RelayExpr:
    target = node.value(1)
    if target is not None:
        return _static_reshape(node, [int(v) for v in target.reshape(-1)])
    dims = node.services.dims(node[1])
    if dims is None or 0 in dims:
        from byoc.relay.frontend.onnx.run_time.list_lengths import declared_rank, with_length

        node = with_length(node, 1, declared_rank(node))
        return relay.reshape(node[0], node[1], allowzero=node.attrs.flag("allowzero"))
    return _partly_known(node, dims)


def _static_reshape(node: OnnxNode, target: list[int]) -> RelayExpr:
    """0 copies a dimension of the input, unless ``allowzero``; one -1 is what remains."""
    shape = node.shape(node[0])
    if min(target, default=0) < -1 or target.count(-1) > 1:
        raise node.error(f"a shape has numbers from 0 on and at most one -1, got {target}")
    if 0 in target and node.attrs.flag("allowzero"):
        from byoc.relay.frontend.onnx.dims import reshaped

        return reshaped(node, node[0], target)
    if any(d == 0 and axis >= len(shape) for axis, d in enumerate(target)):
        raise node.error(f"the shape {target} copies a dimension that the input {node.type_of(node[0])} does not have")
    copied = tuple(shape[axis] if d == 0 else d for axis, d in enumerate(target))
    if are_numbers(shape) and are_numbers(copied) and -1 not in copied and math.prod(shape) != math.prod(copied):
        raise node.error(f"{math.prod(shape)} elements of {node.type_of(node[0])} do not fit the shape {target}")
    if 0 in copied:
        return relay.zeros(_empty_shape(node, list(copied), shape), node.dtype(node[0]))
    return relay.reshape(node[0], target)


def _empty_shape(node: OnnxNode, target: Sequence[Dim], shape: Sequence[Dim]) -> list[int]:
    """A target shape of an empty tensor; -1 is 0 there, because nothing remains."""
    sizes = [d for d in target if not isinstance(d, Any)]
    if len(sizes) != len(target):
        raise node.error("an empty tensor of dynamic shape cannot be reshaped; fix it with shapes=")
    others = [d for d in sizes if d != -1]
    if -1 in sizes and 0 in others:
        raise node.error(f"the size for -1 in {target} is undefined, because another dimension is 0")
    return [0 if d == -1 else d for d in sizes]


def _partly_known(node: OnnxNode, dims: Sequence[Dim | None]) -> RelayExpr:
    """A shape that is computed, of which some sizes are numbers or named."""
    from byoc.relay.frontend.onnx.dims import matched

    shape = node.shape(node[0])
    spec: list[int] = []
    unknown = 0
    for axis, dim in enumerate(dims):
        if isinstance(dim, int):
            spec.append(dim)
        elif dim is not None and axis < len(shape) and shape[axis] == dim:
            spec.append(0)
        else:
            spec.append(-1)
            unknown += 1
    if unknown + sum(d == -1 for d in dims) <= 1:
        return relay.reshape(node[0], spec)
    return matched(node, relay.reshape(node[0], node[1]), dims)


@converter("Flatten")
def _flatten(node: OnnxNode) -> RelayExpr:
    """A matrix: the dimensions before *axis* are its rows, the others its columns."""
    from byoc.relay.frontend.onnx.dims import reshaped

    shape = node.shape(node[0])
    axis = node.attrs.int("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise node.error(f"axis {axis} is out of range for {len(shape)} dimensions")
    axis = axis + len(shape) if axis < 0 else axis
    rows, columns = shape[:axis], shape[axis:]
    if all(isinstance(d, int) for d in shape):
        return reshaped(node, node[0], [math.prod(map(int, rows)), math.prod(map(int, columns))])
    if axis == 1:
        fixed = all(isinstance(d, int) for d in columns)
        if fixed and math.prod(map(int, columns)) == 0:
            return _columns_joined(node[0], len(columns))
        return relay.reshape(node[0], [0, math.prod(map(int, columns)) if fixed else -1])
    if all(isinstance(d, int) for d in columns):
        return relay.reshape(node[0], [-1, math.prod(map(int, columns))])
    if all(isinstance(d, int) for d in rows):
        return relay.reshape(node[0], [math.prod(map(int, rows)), -1])
    data = node[0]
    for _ in range(axis - 1):
        data = relay.reshape(data, [-3, -2])
    return _columns_joined(data, len(columns))


def _columns_joined(data: RelayExpr, count: int) -> RelayExpr:
    """A matrix of *data*, whose last *count* dimensions become one.

    Pair by pair: the 0 of an empty one would be read as that of the data.
    """
    for _ in range(count - 1):
        data = relay.reshape(data, [0, -3, -2])
    return data


@converter("Squeeze")
def _squeeze(node: OnnxNode) -> RelayExpr:
    from byoc.relay.frontend.onnx.run_time.axes import is_of_run

    shape = node.shape(node[0])
    if is_of_run(node, 1):
        return _in_shape_of_run(node, "squeezed", lambda rank: len(shape) - rank)
    if node.optional(1) is None and "axes" not in node.attrs:
        if not are_numbers(shape):
            return _squeezed_alone(node)
        axes = [axis for axis, d in enumerate(shape) if d == 1]
    else:
        axes = sorted({node.axis(a, len(shape)) for a in node.ints(1, "axes")})
        single = node.services.single_slices.get(node[0])
        if single is not None and single.axis in axes:
            return _taken(node, single, [a - (a > single.axis) for a in axes if a != single.axis])
    return relay.squeeze(node[0], axis=axes) if axes else node[0]


def _taken(node: OnnxNode, single: SingleSlice, axes: Sequence[int]) -> RelayExpr:
    """The one element of a slice, without *axes* of size 1; where the slice has none, its start is an error."""
    start = relay.cast(relay.reshape(single.start, []), "int64")
    size = relay.take(relay.shape_of(single.data, "int64"), constant(single.axis, "int64"), axis=0)
    place = relay.where(relay.equal(start, constant(-1, "int64")), size, start)  # that slice ends at 0
    infer_expr(place)
    checked = relay.check_indices_like(place, single.data, [single.axis], node.place)
    element = relay.take(single.data, checked, axis=single.axis)
    return relay.squeeze(element, axis=axes) if axes else element


def _squeezed_alone(node: OnnxNode) -> RelayExpr:
    """Without each dimension of size 1, of which the run looks at those that are not numbers.

    What is taken for the node says whether sizes without a name are 1, one after another.
    Raises BranchesDifferError for a size that nothing is known of yet.
    """
    from byoc.relay.frontend.onnx.dims import matched
    from byoc.relay.frontend.onnx.run_time.axes import axes_shape

    shape, nameless = node.shape(node[0]), (decision.condition for decision in node.taken)
    ones: list[int] = []
    for axis, size in enumerate(shape):
        is_one: bool | None = size == 1
        if isinstance(size, Any):
            is_one = node.services.ones.get(size.name) if size.name else next(nameless, None)
        if is_one is None:
            raise _undecided(node, axis)
        if is_one:
            ones.append(axis)
    form = axes_shape(node, node[0], constant(ones, "int64"), "alone")
    squeezed = relay.reshape(node[0], form, allowzero=True)
    return matched(node, squeezed, [d for k, d in enumerate(shape) if k not in ones])


def _undecided(node: OnnxNode, axis: int) -> BranchesDifferError:
    size = node.shape(node[0])[axis]
    found = relay.take(relay.shape_of(node[0], "int64"), constant(axis, "int64"), axis=0)
    what = f"whether axis {axis} of {node.type_of(node[0])} has the size 1 decides the rank of what follows"
    return BranchesDifferError(
        f"{node.place}: {what}; give the node its axes",
        relay.equal(found, constant(1, "int64")),
        size.name if isinstance(size, Any) else "",
        assumed=False,
    )


def _in_shape_of_run(node: OnnxNode, form: str, count: Callable[[int], int]) -> RelayExpr:
    """The data in a shape by the axes that input 1 holds, of which a result of a declared rank has so many: *count*."""
    from byoc.relay.frontend.onnx.run_time.axes import axes_shape
    from byoc.relay.frontend.onnx.run_time.list_lengths import MOST, declared_rank, with_length

    rank = declared_rank(node)
    most = node.rank(node[0]) if form == "squeezed" else MOST
    node = with_length(node, 1, None if rank is None else count(rank), most=most)
    return relay.reshape(node[0], axes_shape(node, node[0], node[1], form), allowzero=True)


@converter("Unsqueeze")
def _unsqueeze(node: OnnxNode) -> RelayExpr:
    from byoc.relay.frontend.onnx.run_time.axes import is_of_run

    if is_of_run(node, 1):
        return _in_shape_of_run(node, "inserted", lambda rank: rank - node.rank(node[0]))
    axes = node.ints(1, "axes")
    rank = node.rank(node[0]) + len(axes)
    chosen = sorted({node.axis(a, rank) for a in axes})
    if len(chosen) != len(axes):
        raise node.error(f"axes {axes} name a dimension twice")
    data = node[0]
    for axis in chosen:
        data = relay.expand_dims(data, axis)
    return data


@converter("Expand")
def _expand(node: OnnxNode) -> RelayExpr:
    """Broadcast in both directions: a 1 in the wanted shape keeps the input's size."""
    wanted = node.value(1)
    shape = node.shape(node[0])
    dims = node.services.dims(node[1]) if wanted is None else tuple(int(v) for v in wanted.reshape(-1))
    if dims is not None and are_numbers(shape) and are_numbers(dims):
        try:
            target = np.broadcast_shapes(shape, dims)
        except ValueError:
            raise node.error(f"{node.type_of(node[0])} cannot be expanded to the shape {list(dims)}") from None
        return node[0] if target == shape else relay.broadcast_to(node[0], list(target))
    if wanted is not None and len(shape) >= len(wanted) and all(v == 1 for v in wanted.reshape(-1)):
        return node[0]
    return _expand_dynamic(node)


def _expand_dynamic(node: OnnxNode) -> RelayExpr:
    """Multiplying with ones broadcasts like Expand, whatever the sizes turn out to be."""
    from byoc.relay.frontend.onnx.dims import matched
    from byoc.relay.frontend.onnx.run_time.list_lengths import (
        declared_rank,
        of_free_length,
        with_length,
        with_ones_before,
    )

    if of_free_length(node, 1):
        rank, own = declared_rank(node), node.rank(node[0])
        node = with_ones_before(node, 1, own) if rank == own else with_length(node, 1, rank)
    kind = node.dtype(node[0])
    dtype = "int8" if kind == "bool" else kind
    ones: RelayExpr = relay.full(constant(1, dtype), node[1], dtype)
    dims = node.services.dims(node[1])
    if dims is not None:
        ones = matched(node, ones, dims)
    data = relay.cast(node[0], dtype) if kind == "bool" else node[0]
    product = relay.multiply(data, ones)
    return relay.cast(product, kind) if kind == "bool" else product
