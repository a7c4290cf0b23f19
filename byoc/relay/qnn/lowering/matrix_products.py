"""Lowering of ``qnn.dense``, ``qnn.contrib_dense_pack`` and ``qnn.batch_matmul``: a product of the stored integers and
three corrections by the zero points.

``sum (a - za) (b - zb) = sum a b - zb sum a - za sum b + za zb K``; a term whose zero point is 0 is left out. Source:
``relay/qnn/op/{dense,batch_matmul}.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.expr import constant
from byoc.relay.op.attributes.convolution import BatchMatmulAttrs, DenseAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.nn.dense_pack import DensePackAttrs
from byoc.relay.qnn.lowering.parameters import (
    cast,
    difference_dtype,
    is_zero,
    less_zero,
    scalar,
    spread,
)
from byoc.relay.qnn.op.op import register_qnn_canonicalize


def combined(terms: Sequence[RelayExpr | None]) -> RelayExpr:
    """``(product - kernel's correction) + (constant - input's correction)``, where terms may be missing."""
    product, by_kernel, by_input, by_both = terms
    assert product is not None
    value = product if by_kernel is None else relay.subtract(product, by_kernel)
    if by_input is None:
        return value
    return relay.subtract(value, by_input) if by_both is None else relay.add(value, relay.subtract(by_both, by_input))


def _sum_last(data: RelayExpr, before: str, out: str, axis: int, keepdims: bool) -> RelayExpr:
    return relay.sum(cast(data, before, out), axis=axis, keepdims=keepdims)


def _shifted(inputs: Sequence[RelayExpr], types: Sequence[Type], out: str) -> list[RelayExpr]:
    """Both factors as *out*, less their zero points, of which the kernel's lie along its rows."""
    factors = []
    for k, axis in ((0, 0), (1, 0)):
        ty = types[k]
        assert isinstance(ty, TensorType)
        factors.append(less_zero(cast(inputs[k], ty.dtype, out), inputs[k + 2], types[k + 2], axis, ty.ndim, out))
    return factors


def _dense(
    attrs: DenseAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type], data: TensorType, weight: TensorType
) -> RelayExpr:
    out, depth = attrs.out_dtype, weight.shape[1]
    free_input, free_kernel = is_zero(inputs[2]), is_zero(inputs[3])
    if not isinstance(depth, int) and not (free_input and free_kernel):
        return make_call("nn.dense", _shifted(inputs, types, out), attrs)
    terms: list[RelayExpr | None] = [make_call("nn.dense", inputs[:2], attrs), None, None, None]
    kernel_zero = spread(inputs[3], types[3], -1, data.ndim, out)
    if not free_kernel:
        terms[1] = relay.multiply(_sum_last(inputs[0], data.dtype, out, -1, True), kernel_zero)
    if not free_input:
        input_zero = scalar(inputs[2], types[2], out)
        terms[2] = relay.multiply(_sum_last(inputs[1], weight.dtype, out, 1, False), input_zero)
        if not free_kernel:
            terms[3] = relay.multiply(relay.multiply(input_zero, kernel_zero), constant(depth, out))
    return combined(terms)


def shifted_dense(attrs: DenseAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.dense`` as ``nn.dense`` of both factors less their zero points, as int16 where that holds them."""
    data = types[0]
    assert isinstance(data, TensorType)
    return make_call("nn.dense", _shifted(inputs, types, difference_dtype(data, inputs[2:4])), attrs)


@register_qnn_canonicalize("qnn.dense")
def lower_dense(attrs: DenseAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.dense`` as ``nn.dense`` and corrections."""
    data, weight = types[:2]
    assert isinstance(data, TensorType) and isinstance(weight, TensorType)
    return _dense(attrs, inputs, types, data, weight)


@register_qnn_canonicalize("qnn.contrib_dense_pack")
def lower_dense_pack(attrs: DensePackAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    """``qnn.contrib_dense_pack`` as ``nn.dense`` with the blocks of the weight put together."""
    data, weight = types[:2]
    assert isinstance(data, TensorType) and isinstance(weight, TensorType)
    if not weight.is_static:
        return None
    plain, shape = inputs[1], weight.concrete_shape
    if weight.ndim == 4:
        plain, shape = relay.transpose(plain, (0, 2, 1, 3)), (shape[0] * shape[2], shape[1] * shape[3])
    elif weight.ndim == 3:
        plain, shape = relay.transpose(plain, (0, 2, 1)), (shape[0] * shape[2], shape[1])
    if weight.ndim > 2:
        plain = relay.reshape(plain, shape)
    inputs = [inputs[0], plain, *inputs[2:]]
    return _dense(DenseAttrs(attrs.units, attrs.out_dtype), inputs, types, data, TensorType(shape, weight.dtype))


@register_qnn_canonicalize("qnn.batch_matmul")
def lower_batch_matmul(attrs: BatchMatmulAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.batch_matmul`` as ``nn.batch_matmul`` and corrections."""
    x, y = types[:2]
    assert isinstance(x, TensorType) and isinstance(y, TensorType)
    out, x_axis, y_axis = attrs.out_dtype, 1 if attrs.transpose_a else 2, 2 if attrs.transpose_b else 1
    depth = x.shape[x_axis]
    free_x, free_y = is_zero(inputs[2]), is_zero(inputs[3])
    if not isinstance(depth, int) and not (free_x and free_y):
        return make_call("nn.batch_matmul", _shifted(inputs, types, out), attrs)
    terms: list[RelayExpr | None] = [make_call("nn.batch_matmul", inputs[:2], attrs), None, None, None]
    x_zero, y_zero = (scalar(inputs[k], types[k], out) for k in (2, 3))
    if not free_y:
        sums = relay.expand_dims(_sum_last(inputs[0], x.dtype, out, x_axis, False), 2)
        terms[1] = relay.multiply(sums, y_zero)
    if not free_x:
        sums = relay.expand_dims(_sum_last(inputs[1], y.dtype, out, y_axis, False), 1)
        terms[2] = relay.multiply(sums, x_zero)
        if not free_y:
            terms[3] = relay.multiply(relay.multiply(x_zero, y_zero), constant(depth, out))
    return combined(terms)
