"""Activations, and what surrounds them: bias, dropout, flattening. Source: ``relay/op/nn/nn.cc``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, RelationOf, Sample, register_op
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.size_var import times
from byoc.ir.traits import Conversion, OpKind, Scaling, Traits, view
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.expr import Call, TupleGetItem
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.indexing import ZERO, split_index
from byoc.relay.op.core.type_relations import identity, is_float, normalize_axis, only, tensor_arg
from byoc.relay.op.core.untyped_inputs import same_as_result, vectors_of_axis
from byoc.relay.op.core.window import differ
from byoc.relay.op.nn.pool_compute import sum_dtype
from byoc.te import Index, PrimExpr, Tensor


@dataclass(frozen=True)
class LeakyReluAttrs(Attrs):
    """Attributes of ``nn.leaky_relu``."""

    alpha: float = 0.25  # as in Relay's class; its function has 0.01


@dataclass(frozen=True)
class PReluAttrs(Attrs):
    """Attributes of ``nn.prelu``."""

    axis: int = 1


@dataclass(frozen=True)
class BiasAddAttrs(Attrs):
    """Attributes of ``nn.bias_add``."""

    axis: int = 1


@dataclass(frozen=True)
class SoftmaxAttrs(Attrs):
    """Attributes of ``nn.softmax`` and ``nn.log_softmax``."""

    axis: int = -1


@dataclass(frozen=True)
class DropoutAttrs(Attrs):
    """Attributes of ``nn.dropout``."""

    rate: float = 0.5


def _vector_relation(name: str) -> RelationOf[BiasAddAttrs | PReluAttrs]:
    def relation(types: Sequence[Type], attrs: BiasAddAttrs | PReluAttrs) -> TensorType:
        data, vector = tensor_arg(types, 0), tensor_arg(types, 1, name)
        channels = data.shape[normalize_axis(attrs.axis, data.ndim)]
        if vector.ndim != 1 or differ(vector.shape[0], channels):
            raise TypeInferenceError(
                f"{name} must hold {channels} numbers, the size of axis {attrs.axis}, got {vector}"
            )
        if vector.dtype != data.dtype:
            raise TypeInferenceError(f"{name} is {vector.dtype}, data is {data.dtype}: cast one of them")
        return data

    return relation


def softmax_relation(types: Sequence[Type], attrs: SoftmaxAttrs) -> TensorType:
    """The type of the data, which has the axis. Raises TypeInferenceError where it has not."""
    data = tensor_arg(types, 0)
    normalize_axis(attrs.axis, data.ndim)
    return data


def _dropout_relation(types: Sequence[Type], attrs: DropoutAttrs) -> TupleType:
    return TupleType([tensor_arg(types, 0)] * 2)


def _flatten_relation(types: Sequence[Type], attrs: Attrs | None) -> TensorType:
    data = tensor_arg(types, 0)
    if data.ndim < 1:
        raise TypeInferenceError("data must have a batch dimension, got a scalar")
    others = [d for d in data.shape[1:] if d != 1]
    if not any(isinstance(d, Any) for d in others):
        return TensorType((data.shape[0], math.prod(map(int, others))), data.dtype)
    return TensorType((data.shape[0], functools.reduce(times, others)), data.dtype)


def _elementwise(name: str, of: Callable[..., PrimExpr]) -> Callable[..., list[Tensor]]:
    def compute(attrs: Attrs | None, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
        return [te.compute(inputs[0].shape, lambda *index: of(attrs, inputs, index), name=name)]

    return compute


def _relu(attrs: None, inputs: Sequence[Tensor], index: Sequence[Index]) -> PrimExpr:
    return te.maximum(inputs[0](*index), te.const(0, inputs[0].dtype))


def _leaky_relu(attrs: LeakyReluAttrs, inputs: Sequence[Tensor], index: Sequence[Index]) -> PrimExpr:
    x = inputs[0](*index)
    return te.if_then_else(x > 0, x, x * attrs.alpha)


def _prelu(attrs: PReluAttrs, inputs: Sequence[Tensor], index: Sequence[Index]) -> PrimExpr:
    x = inputs[0](*index)
    return te.if_then_else(x > 0, x, x * inputs[1](index[attrs.axis]))


BIAS_OPERATORS = ("nn.bias_add", "add")
"""The operators by which a model may add a bias behind a product, as patterns name them."""


def _bias_add(attrs: BiasAddAttrs, inputs: Sequence[Tensor], index: Sequence[Index]) -> PrimExpr:
    return inputs[0](*index) + inputs[1](index[attrs.axis])


Row = Callable[..., list[PrimExpr]]


def softmax_parts(
    data: Tensor, axis: int, exp: Callable[[PrimExpr], PrimExpr] = te.exp
) -> tuple[tuple[Tensor, Tensor, Tensor], Row]:
    """The greatest elements along *axis*, the exponentials of the distances, their sums; and indices of a row."""
    dtype, shape = sum_dtype(data.dtype), list(data.shape)
    shape[axis] = 1
    k = te.reduce_axis(data.shape[axis], "k")

    def row(index: Sequence[PrimExpr], at: PrimExpr = ZERO) -> list[PrimExpr]:
        return [at if j == axis else i for j, i in enumerate(index)]

    top = te.compute(shape, lambda *i: te.max(data(*row(i, k)), k), name="softmax_max", tag="softmax_max")
    powers = te.compute(
        data.shape,
        lambda *i: exp(te.cast(dtype, data(*i)) - te.cast(dtype, top(*row(i)))),
        name="softmax_exp",
        tag="softmax_exp",
    )
    k2 = te.reduce_axis(data.shape[axis], "k")
    total = te.compute(shape, lambda *i: te.sum(powers(*row(i, k2)), k2), name="softmax_sum", tag="softmax_sum")
    return (top, powers, total), row


def _softmax_compute(attrs: SoftmaxAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    return [softmax_of(inputs[0], attrs.axis, "softmax")]


def softmax_of(data: Tensor, axis: int, name: str, exp: Callable[[PrimExpr], PrimExpr] = te.exp) -> Tensor:
    """The exponentials times one over their sum: a division for each row, none for each element.

    The sum is at least 1, since the greatest distance is 0, so that its reciprocal neither overflows nor is denormal.
    """
    (_, powers, total), row = softmax_parts(data, axis % data.ndim, exp)
    inverse = te.compute(total.shape, lambda *i: 1 / total(*i), name="softmax_inverse", tag="softmax_inverse")

    def element(*index: Index) -> PrimExpr:
        return te.cast(data.dtype, powers(*index) * inverse(*row(index)))

    return te.compute(data.shape, element, name=name, tag="softmax_div")


def _log_softmax_compute(attrs: SoftmaxAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    data = inputs[0]
    (top, powers, total), row = softmax_parts(data, attrs.axis % data.ndim)

    def element(*index: Index) -> PrimExpr:
        shifted = te.cast(powers.dtype, data(*index)) - te.cast(powers.dtype, top(*row(index)))
        return te.cast(data.dtype, shifted - te.log(total(*row(index))))

    return [te.compute(data.shape, element, name="log_softmax", tag="softmax_log")]


def _dropout_compute(attrs: DropoutAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    data = inputs[0]
    ones = te.compute(data.shape, lambda *index: te.const(1, data.dtype), name="dropout_mask")
    return [te.compute(data.shape, lambda *index: data(*index), name="dropout"), ones]


def _flatten_compute(attrs: None, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data = inputs[0]

    def element(n: Index, rest: Index) -> PrimExpr:
        return data(n, *split_index(rest, data.shape[1:]))

    return [te.compute(te.shape_of(out_type), element, name="batch_flatten")]


def relu(data: RelayExpr) -> Call:
    """max(x, 0). Source: ``relay.nn.relu``."""
    return make_call("nn.relu", [data])


def leaky_relu(data: RelayExpr, alpha: float = 0.01) -> Call:
    """x where it is positive, else *alpha* x. Source: ``relay.nn.leaky_relu``."""
    return make_call("nn.leaky_relu", [data], LeakyReluAttrs(alpha))


def prelu(data: RelayExpr, alpha: RelayExpr, axis: int = 1) -> Call:
    """x where it is positive, else x times the slope of its channel. Source: ``relay.nn.prelu``."""
    return make_call("nn.prelu", [data, alpha], PReluAttrs(axis))


def bias_add(data: RelayExpr, bias: RelayExpr, axis: int = 1) -> Call:
    """Add a vector along *axis*. Source: ``relay.nn.bias_add``."""
    return make_call("nn.bias_add", [data, bias], BiasAddAttrs(axis))


def softmax(data: RelayExpr, axis: int = -1) -> Call:
    """exp(x) over its sum along *axis*. Source: ``relay.nn.softmax``."""
    return make_call("nn.softmax", [data], SoftmaxAttrs(axis))


def log_softmax(data: RelayExpr, axis: int = -1) -> Call:
    """The logarithm of the softmax. Source: ``relay.nn.log_softmax``."""
    return make_call("nn.log_softmax", [data], SoftmaxAttrs(axis))


def dropout_raw(data: RelayExpr, rate: float = 0.5) -> Call:
    """Dropout as a tuple of result and mask. Source: ``relay.nn.dropout_raw``."""
    return make_call("nn.dropout", [data], DropoutAttrs(rate))


def dropout(data: RelayExpr, rate: float = 0.5) -> TupleGetItem:
    """Dropout's result; at inference nothing is dropped. Source: ``relay.nn.dropout``."""
    from byoc.relay.tuple_wrapper import TupleWrapper

    return TupleWrapper(dropout_raw(data, rate), 2)[0]


def batch_flatten(data: RelayExpr) -> Call:
    """[N, ...] -> [N, product of the rest]. Source: ``relay.nn.batch_flatten``."""
    return make_call("nn.batch_flatten", [data])


register_op(
    "nn.relu",
    inputs=Inputs(("data",), infer=same_as_result),
    rel=identity,
    doc="max(x, 0).",
    pattern=OpPattern.ELEMWISE,
    traits=Traits(
        OpKind.POINTWISE, precision=Conversion.FOLLOW, scaling=Scaling.PASSES, idempotent=True, activation=True
    ),
    compute=_elementwise("relu", _relu),
    samples=[Sample([(2, 3, 4)]), Sample([(5,)], dtype="int32", low=-9, high=9)],
).set_support_level(1)
register_op(
    "nn.leaky_relu",
    inputs=("data",),
    rel=identity,
    doc="x or alpha x.",
    attrs=LeakyReluAttrs,
    pattern=OpPattern.ELEMWISE,
    traits=Traits(OpKind.POINTWISE, precision=Conversion.FOLLOW, scaling=Scaling.PASSES, activation=True),
    compute=_elementwise("leaky_relu", _leaky_relu),
    samples=[Sample([(2, 3, 4)], {"alpha": 0.2})],
).set_support_level(3)
register_op(
    "nn.prelu",
    inputs=Inputs(("data", "alpha"), infer=vectors_of_axis(1)),
    rel=_vector_relation("alpha"),
    doc="x or x times its channel's slope.",
    attrs=PReluAttrs,
    pattern=OpPattern.BROADCAST,
    traits=Traits(OpKind.POINTWISE, precision=Conversion.FOLLOW),
    compute=_elementwise("prelu", _prelu),
    samples=[Sample([(2, 3, 4), (3,)]), Sample([(2, 3, 4), (4,)], {"axis": -1})],
).set_support_level(3)
register_op(
    "nn.bias_add",
    inputs=Inputs(("data", "bias"), infer=vectors_of_axis(1)),
    rel=_vector_relation("bias"),
    doc="Addition of a vector along an axis.",
    attrs=BiasAddAttrs,
    pattern=OpPattern.BROADCAST,
    traits=Traits(OpKind.POINTWISE, precision=Conversion.FOLLOW, scaling=Scaling.SUM),
    compute=_elementwise("bias_add", _bias_add),
    samples=[Sample([(2, 3, 4, 5), (3,)]), Sample([(2, 3, 4), (4,)], {"axis": -1})],
).set_support_level(1)
register_op(
    "nn.softmax",
    inputs=("data",),
    rel=softmax_relation,
    doc="exp(x) over its sum.",
    attrs=SoftmaxAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.ROWS, precision=Conversion.NEVER, costly=3.5, passes=3.0, fast_form="nn.fast_softmax"),
    compute=Implementation(_softmax_compute, code_for=only(is_float)),
    samples=[Sample([(3, 7)]), Sample([(2, 5, 3)], {"axis": 1}, low=80.0, high=120.0)],
).set_support_level(1)
register_op(
    "nn.log_softmax",
    inputs=("data",),
    rel=softmax_relation,
    doc="The logarithm of the softmax.",
    attrs=SoftmaxAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.ROWS, precision=Conversion.NEVER, costly=3.5, passes=3.0),
    compute=Implementation(_log_softmax_compute, code_for=only(is_float)),
    samples=[Sample([(3, 7)]), Sample([(2, 5, 3)], {"axis": 1}, low=-120.0, high=120.0)],
).set_support_level(1)
_DROPOUT = register_op(
    "nn.dropout",
    inputs=("data",),
    rel=_dropout_relation,
    doc="The data and a mask of ones.",
    attrs=DropoutAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW),
    compute=_dropout_compute,
    samples=[Sample([(2, 3)])],
)
_DROPOUT.set_support_level(1)
_DROPOUT.set_attr("FoldConstantKeeps", True)
register_op(
    "nn.batch_flatten",
    inputs=("data",),
    rel=_flatten_relation,
    doc="All axes but the first made one.",
    pattern=OpPattern.INJECTIVE,
    traits=view(),
    compute=_flatten_compute,
    samples=[Sample([(2, 3, 4, 5)]), Sample([(3,)])],
).set_support_level(2)
