"""Operators that write elements at positions: no tensor expression, they run on numpy kernels.

Where positions repeat, ``update`` keeps the last one and the other reductions combine all of them. Source:
``relay/op/tensor/transform.cc`` (``scatter_elements``, ``scatter_nd``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, normalize_axis, same_dtype, tensor_arg, unify_dim

REDUCTIONS = ("update", "add", "mul", "mean", "min", "max")


@dataclass(frozen=True)
class ScatterElementsAttrs(Attrs):
    """Attributes of ``scatter_elements``."""

    axis: int = 0
    reduction: str = "update"


@dataclass(frozen=True)
class ScatterNDAttrs(Attrs):
    """Attributes of ``scatter_nd``."""

    mode: str = "update"


def _arguments(types: Sequence[Type], reduction: str) -> tuple[TensorType, TensorType, TensorType]:
    data, indices, updates = (tensor_arg(types, k, n) for k, n in enumerate(("data", "indices", "updates")))
    if not is_integer(indices.dtype):
        raise TypeInferenceError(f"indices must be integers, got {indices.dtype}")
    same_dtype([data, updates])
    if reduction not in REDUCTIONS:
        raise TypeInferenceError(f"the reduction is one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    return data, indices, updates


def _scatter_elements_rel(types: Sequence[Type], attrs: ScatterElementsAttrs) -> Type:
    data, indices, updates = _arguments(types, attrs.reduction)
    normalize_axis(attrs.axis, data.ndim)
    if not data.ndim == indices.ndim == updates.ndim:
        raise TypeInferenceError("data, indices and updates must have one rank")
    if any(unify_dim(a, b) is None for a, b in zip(indices.shape, updates.shape, strict=True)):
        raise TypeInferenceError(f"indices {indices.shape} and updates {updates.shape} must have one shape")
    return data


_ROWS = np.array([[0, 2, 0], [1, 0, -1]], "int64")
register_op(
    "scatter_elements",
    inputs=("data", "indices", "updates"),
    attrs=ScatterElementsAttrs,
    rel=_scatter_elements_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW),
    doc="A copy of the data with each update written, along an axis, at the position that the indices hold.",
    samples=(
        Sample([(3, 3), _ROWS, (2, 3)]),
        *(Sample([(2, 4), _ROWS, (2, 3)], {"axis": 1, "reduction": r}) for r in REDUCTIONS),
    ),
).set_support_level(3)


def scatter_elements(
    data: Operand, indices: Operand, updates: Operand, axis: int = 0, reduction: str = "update"
) -> Call:
    """*data* with *updates* at *indices* along *axis*. Source: ``relay.scatter_elements``."""
    args = [as_expr(data), as_expr(indices), as_expr(updates)]
    return make_call("scatter_elements", args, ScatterElementsAttrs(axis, reduction))


def _scatter_nd_rel(types: Sequence[Type], attrs: ScatterNDAttrs) -> Type:
    data, indices, updates = _arguments(types, attrs.mode)
    if not indices.shape or not isinstance(indices.shape[0], int) or indices.shape[0] > data.ndim:
        raise TypeInferenceError(f"the first dimension of the indices counts coordinates of {data}, got {indices}")
    rows = data.shape[indices.shape[0] :]
    places = indices.ndim - 1
    fits = updates.ndim == places + len(rows)  # whether there is an update for each place shows when it runs
    if not fits or any(unify_dim(a, b) is None for a, b in zip(rows, updates.shape[places:], strict=True)):
        expected = (*indices.shape[1:], *rows)
        raise TypeInferenceError(f"updates must have the shape {expected}, got {updates.shape}")
    return data


_POINTS = np.array([[0, 2, 0], [1, 0, 1]], "int64")
register_op(
    "scatter_nd",
    inputs=("data", "indices", "updates"),
    attrs=ScatterNDAttrs,
    rel=_scatter_nd_rel,
    doc="A copy of the data with each update written at the coordinates along the first axis of the indices.",
    samples=(
        *(Sample([(3, 2), _POINTS, (3,)], {"mode": r}) for r in REDUCTIONS),
        Sample([(3, 2, 4), _POINTS[:1], (3, 2, 4)], {"mode": "add"}),
    ),
).set_support_level(3)


def scatter_nd(data: Operand, indices: Operand, updates: Operand, mode: str = "update") -> Call:
    """*data* with *updates* at coordinates *indices*. Source: ``relay.scatter_nd``."""
    return make_call("scatter_nd", [as_expr(data), as_expr(indices), as_expr(updates)], ScatterNDAttrs(mode))
