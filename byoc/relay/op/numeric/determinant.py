"""``det``: determinants of matrices. Source: ONNX Det-11/22."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, tensor_arg, unify_dim


def _rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data = tensor_arg(types, 0)
    if data.ndim < 2 or not is_float(data.dtype) or unify_dim(data.shape[-1], data.shape[-2]) is None:
        raise TypeInferenceError(f"takes square matrices of floats in the last two axes, got {data}")
    return TensorType(data.shape[:-2], data.dtype)


register_op(
    "det",
    inputs=("data",),
    rel=_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.NEVER),
    doc="The determinants of the matrices in the last two axes.",
    samples=(Sample([(3, 3)]), Sample([(2, 3, 4, 4)], dtype="float64")),
)


def det(data: Operand) -> Call:
    """``T[..., n, n] -> T[...]``, in float64 by an LU decomposition with pivots. Source: ONNX Det-22."""
    return make_call("det", [as_expr(data)])
