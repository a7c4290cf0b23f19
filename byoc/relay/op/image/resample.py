"""``image.resample``: one axis of a tensor made anew, each element a weighted sum of a few of the old ones.

``y[..., i, ...] = sum over k of weights[i, k] * data[..., positions[i, k], ...]``. Only what is named is read, so that
a NaN reaches no further than the taps on it, which a product with a matrix of mostly zeros would spread over the axis.
ONNX's linear and cubic Resize, with antialiasing too, is one call an axis. Relay has no such operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import clamp
from byoc.relay.op.core.type_relations import is_float, is_integer, normalize_axis, tensor_arg
from byoc.relay.op.core.window import differ

UNROLLED = 16  # up to so many taps the sum is written out; beyond it is a loop


@dataclass(frozen=True)
class ResampleAttrs(Attrs):
    """Attributes of ``image.resample``: the axis that is made anew."""

    axis: int = -1


def _relation(types: Sequence[Type], attrs: ResampleAttrs) -> Type:
    data, places, weights = (tensor_arg(types, k, what) for k, what in enumerate(("data", "positions", "weights")))
    axis = normalize_axis(attrs.axis, data.ndim)
    if not is_float(data.dtype) or weights.dtype != data.dtype or not is_integer(places.dtype):
        raise TypeInferenceError(
            f"takes floats, integers and weights of the floats' type, got {data}, {places}, {weights}"
        )
    if places.ndim != 2 or weights.ndim != 2 or any(map(differ, places.shape, weights.shape)):
        raise TypeInferenceError(f"positions and weights must both be [new, taps], got {places} and {weights}")
    return TensorType((*data.shape[:axis], places.shape[0], *data.shape[axis + 1 :]), data.dtype)


def _compute(attrs: ResampleAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, places, weights = inputs
    axis, taps = attrs.axis % data.ndim, places.shape[1]

    def tap(i: Sequence[te.PrimExpr], k: te.PrimExpr | int) -> te.PrimExpr:
        place = clamp(places[i[axis], k], data.shape[axis])
        return data[(*i[:axis], place, *i[axis + 1 :])] * weights[i[axis], k]

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        if not isinstance(taps, int) or not 0 < taps <= UNROLLED:
            k = te.reduce_axis(taps, "k")
            return te.sum(tap(i, k), k)
        value = tap(i, 0)
        for place in range(1, taps):
            value = value + tap(i, place)
        return value

    return [te.compute(te.shape_of(out_type), element, "resample")]


def _count(attrs: ResampleAttrs, in_types: Sequence[Type], out_type: TensorType) -> int:
    taps = tensor_arg(in_types, 1, "positions").shape[1]
    known = [d for d in (*out_type.shape, taps) if isinstance(d, int)]
    return 2 * math.prod(known)


_PLACES = np.array([[0, 1], [1, 2], [3, 3]], "int32")
_MANY = np.arange(2 * 20).reshape(2, 20) % 5
register_op(
    "image.resample",
    inputs=("data", "positions", "weights"),
    attrs=ResampleAttrs,
    rel=_relation,
    pattern=OpPattern.INJECTIVE,
    compute=_compute,
    operations=_count,
    doc="One axis made anew, each element a weighted sum of a few of the old ones.",
    samples=(
        Sample([(2, 4, 5), _PLACES, (3, 2)], {"axis": 1}),
        Sample([(2, 4), _PLACES, (3, 2)], {"axis": -1}),
        Sample([(4,), _PLACES.astype("int64"), (3, 2)], {"axis": 0}, "float64"),
        Sample([(1, 2, 5), _MANY, (2, 20)], {"axis": 2}),
    ),
)


def resample(data: Operand, positions: Operand, weights: Operand, axis: int = -1) -> Call:
    """``T[.., size, ..], int[new, taps], T[new, taps] -> T[.., new, ..]``: weighted sums of elements along *axis*.

    Positions beyond the axis are moved to its edge.
    """
    return make_call("image.resample", [as_expr(v) for v in (data, positions, weights)], ResampleAttrs(axis))
