"""Gradients of sums of products, and of the losses made of them."""

from __future__ import annotations

from byoc.annex.gradients.rules.rules import gradient, scalar, shape, tensor
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call
from byoc.relay.op import nn


@gradient("nn.dense")
def dense_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad @ weight, gradᵀ @ data; leading axes of the data are one."""
    data, weight = orig.args
    rows = op.reshape(data, (-1, shape(data)[-1])) if tensor(data).ndim > 2 else data
    flat = op.reshape(grad, (-1, shape(weight)[0])) if tensor(data).ndim > 2 else grad
    by_data = nn.dense(flat, op.transpose(weight), units=shape(weight)[1])
    by_weight = nn.dense(op.transpose(flat), op.transpose(rows), units=shape(weight)[1])
    return [op.collapse_sum_like(op.reshape_like(by_data, data), data), op.collapse_sum_like(by_weight, weight)]


@gradient("nn.matmul")
def matmul_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad @ bᵀ, aᵀ @ grad, transposed as the arguments are."""
    (a, b), attrs = orig.args, orig.attrs
    ta, tb = bool(attrs.transpose_a), bool(attrs.transpose_b)
    by_a = nn.matmul(b, grad, transpose_a=tb, transpose_b=True) if ta else nn.matmul(grad, b, transpose_b=not tb)
    by_b = nn.matmul(grad, a, transpose_a=True, transpose_b=ta) if tb else nn.matmul(a, grad, transpose_a=not ta)
    return [op.reshape_like(by_a, a), op.reshape_like(by_b, b)]


@gradient("nn.batch_matmul")
def batch_matmul_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """As of ``nn.matmul``, for each matrix of the batch."""
    (a, b), attrs = orig.args, orig.attrs
    ta, tb = bool(attrs.transpose_a), bool(attrs.transpose_b)
    if ta:
        by_a = nn.batch_matmul(b, grad, transpose_a=tb, transpose_b=True)
    else:
        by_a = nn.batch_matmul(grad, b, transpose_a=False, transpose_b=not tb)
    if tb:
        by_b = nn.batch_matmul(grad, a, transpose_a=True, transpose_b=ta)
    else:
        by_b = nn.batch_matmul(a, grad, transpose_a=not ta, transpose_b=False)
    return [op.collapse_sum_like(by_a, a), op.collapse_sum_like(by_b, b)]


@gradient("nn.cross_entropy")
def cross_entropy_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """-grad * y / (n * x), -grad * log(x) / n."""
    x, y = orig.args
    share = op.divide(grad, scalar(float(shape(x)[0]), x))
    return [op.negative(op.multiply(share, op.divide(y, x))), op.negative(op.multiply(share, op.log(x)))]


@gradient("nn.cross_entropy_with_logits")
def cross_entropy_with_logits_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """-grad * y / n, -grad * x / n."""
    x, y = orig.args
    share = op.divide(grad, scalar(float(shape(x)[0]), x))
    return [op.negative(op.multiply(share, y)), op.negative(op.multiply(share, x))]
