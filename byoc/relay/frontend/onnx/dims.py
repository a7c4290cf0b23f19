"""Reshapes and broadcasts of shapes that may be dynamic, as static as what is known allows."""

from __future__ import annotations

from collections.abc import Sequence

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode


def reshaped(
    node: OnnxNode, data: RelayExpr, target: Sequence[Dim | None], sources: Sequence[RelayExpr] = ()
) -> RelayExpr:
    """*data* in the shape *target*, of which one entry may be None: whatever remains.

    A dynamic size is copied from the same position of *data*, or is what remains, or is read at run time from a
    dimension of *sources* that has the same name.
    """
    shape = node.shape(data)
    spec: list[int | Any] = []
    for axis, dim in enumerate(target):
        if dim is None:
            spec.append(-1)
        elif isinstance(dim, Any) and dim.name and axis < len(shape) and shape[axis] == dim:
            spec.append(0)
        else:
            spec.append(dim)
    unknown = [axis for axis, dim in enumerate(spec) if isinstance(dim, Any)]
    if len(unknown) == 1 and -1 not in spec:
        spec[unknown[0]], unknown = -1, []
    if not unknown:
        if 0 in (d for d in target if isinstance(d, int)):
            return relay.zeros([d for d in target], node.dtype(data))  # an empty tensor has no elements to move
        return relay.reshape(data, spec)
    return relay.reshape(data, _run_time_shape(node, spec, (data, *sources)))


def _run_time_shape(node: OnnxNode, spec: Sequence[int | Any], sources: Sequence[RelayExpr]) -> RelayExpr:
    parts = [_size(node, dim, sources) if isinstance(dim, Any) else constant([dim], "int64") for dim in spec]
    return relay.concatenate(parts, axis=0)


def _size(node: OnnxNode, dim: Any, sources: Sequence[RelayExpr]) -> RelayExpr:
    for source in sources:
        for axis, found in enumerate(node.shape(source)):
            if found == dim and dim.name:
                return relay.take(relay.shape_of(source, "int64"), constant([axis], "int64"), axis=0)
    raise node.error(f"the size {dim} is not known at run time either; fix it with shapes=")


def matched(node: OnnxNode, data: RelayExpr, dims: Sequence[int | Any | None]) -> RelayExpr:
    """*data*, whose dimensions are known to be *dims* (None or -1: not known), under their names where it has none."""
    shape = node.shape(data)
    known = [Any() if dim is None or dim == -1 else dim for dim in dims]
    says_more = any(isinstance(a, Any) and not a.name and b != a for a, b in zip(shape, known, strict=True))
    return relay.match_shape(data, known) if says_more else data


def agreeing(node: OnnxNode, data: RelayExpr, axis: int, dim: Dim) -> RelayExpr:
    """*data*, whose size along *axis* must be *dim* whatever the names are: the run checks where they differ."""
    shape = list(node.shape(data))
    sizes = shape[axis], dim
    if (
        sizes[0] == dim
        or not any(isinstance(d, Any) for d in sizes)
        or any(isinstance(d, Any) and not d.name for d in sizes)
    ):
        return data
    shape[axis] = dim
    return relay.match_shape(data, shape)


def broadcast_dims(node: OnnxNode, left: Sequence[Dim], right: Sequence[Dim]) -> list[Dim]:
    """The shape to which two shapes are broadcast. Raises ImportModelError where they do not fit."""
    count = max(len(left), len(right))
    a = [1] * (count - len(left)) + list(left)
    b = [1] * (count - len(right)) + list(right)
    return [_broadcast(node, x, y) for x, y in zip(a, b, strict=True)]


def _broadcast(node: OnnxNode, x: Dim, y: Dim) -> Dim:
    if x == y or y == 1:
        return x
    if x == 1 or isinstance(x, Any):
        return y
    if isinstance(y, Any):
        return x
    raise node.error(f"dimensions {x} and {y} cannot be broadcast to each other")
