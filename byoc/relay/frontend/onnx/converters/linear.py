"""Matrix products. Source: ONNX Gemm-1/6/7/11, MatMul-1/9, MatMulInteger-10, Einsum-12, Det-11."""

from __future__ import annotations

import math
from collections.abc import Sequence

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


@converter("Gemm")
def _gemm(node: OnnxNode) -> RelayExpr:
    """``alpha * A' B' + beta * C`` as nn.dense, whose weight is the transpose of B'.

    Integers times a fraction are summed in float64 and cut off towards zero, as onnx.reference does.
    """
    left, right = node[0], node[1]
    if node.rank(left) != 2 or node.rank(right) != 2:
        raise node.error(f"A and B must be matrices, got {node.type_of(left)} and {node.type_of(right)}")
    if node.attrs.flag("transA"):
        left = relay.transpose(left, axes=[1, 0])
    if not node.attrs.flag("transB"):
        right = node.fold(relay.transpose(right, axes=[1, 0]))
    product = relay.nn.dense(*_of_one_length(node, left, right, -1))
    alpha, beta = node.attrs.float("alpha", 1.0), node.attrs.float("beta", 1.0)
    bias = node.optional(2) if beta != 0 else None
    if not all(factor.is_integer() for factor in (alpha, beta)) and "int" in node.dtype(product):
        wide_bias = None if bias is None else relay.cast(bias, "float64")
        wide = _scaled_sum(node, relay.cast(product, "float64"), wide_bias, alpha, beta)
        return relay.cast(wide, node.dtype(product))
    return _scaled_sum(node, product, bias, alpha, beta)


def _scaled_sum(node: OnnxNode, product: RelayExpr, bias: RelayExpr | None, alpha: float, beta: float) -> RelayExpr:
    """``alpha * product + beta * bias``, where factors of integers must be whole."""
    total = _times(node, product, alpha)
    if bias is None:
        return total
    if beta == 1 and node.shape(bias) == node.shape(product)[1:]:
        return relay.nn.bias_add(total, bias, axis=-1)
    return relay.add(total, _times(node, bias, beta))


def _times(node: OnnxNode, value: RelayExpr, factor: float) -> RelayExpr:
    whole = int(factor) if "int" in node.dtype(value) else factor
    return value if factor == 1 else relay.multiply(value, node.like(whole, value))


@converter("MatMul")
def _matmul(node: OnnxNode) -> RelayExpr:
    return matrix_product(node, node[0], node[1])


def matrix_product(node: OnnxNode, left: RelayExpr, right: RelayExpr) -> RelayExpr:
    """numpy's ``matmul``: vectors are promoted, the leading dimensions are broadcast."""
    ranks = node.rank(left), node.rank(right)
    if 0 in ranks:
        raise node.error("a scalar has no matrix product; use Mul")
    drop: list[int] = []
    if ranks[0] == 1:
        left, drop = relay.expand_dims(left, 0), [-2]
    if ranks[1] == 1:
        right, drop = relay.expand_dims(right, 1), [*drop, -1]
    result = _product(node, *_of_one_length(node, left, right, -2))
    return relay.squeeze(result, axis=[node.rank(result) + axis for axis in drop]) if drop else result


def _of_one_length(node: OnnxNode, left: RelayExpr, right: RelayExpr, axis: int) -> tuple[RelayExpr, RelayExpr]:
    """Both operands, of which the last axis of *left* and *axis* of *right* have one size: the run checks it."""
    own, other = node.shape(left)[-1], node.shape(right)[axis]
    if own == other or (isinstance(own, int) and isinstance(other, int)):
        return left, right
    from byoc.relay.frontend.onnx.dims import agreeing

    if isinstance(own, int):
        return left, agreeing(node, right, axis, own)
    return agreeing(node, left, -1, other), right


def _product(node: OnnxNode, left: RelayExpr, right: RelayExpr) -> RelayExpr:
    from byoc.relay.frontend.onnx.dims import broadcast_dims, reshaped

    a, b, operands = node.shape(left), node.shape(right), (left, right)
    if len(b) == 2 and (len(a) == 2 or not any(isinstance(d, Any) for d in a)):
        weight = node.fold(relay.transpose(right, axes=[1, 0]))
        if len(a) == 2:
            return relay.nn.dense(left, weight)
        flat = relay.nn.dense(relay.reshape(left, [-1, a[-1]]), weight)
        return reshaped(node, flat, [*a[:-1], b[-1]], (left, right))
    if any(isinstance(d, Any) for d in (*a[:-2], *b[:-2])) and max(len(a), len(b)) != 3:
        return relay.einsum([left, right], "...ij,...jk->...ik")
    batch = broadcast_dims(node, a[:-2], b[:-2])
    spread = any(_must_spread(s, batch) and any(isinstance(d, Any) for d in s[-2:]) for s in (a, b))
    if spread or (len(batch) > 1 and any(map(_are_unnamed, (a[-2:], b[-2:], (a[-2], b[-1]))))):
        return relay.einsum([left, right], "...ij,...jk->...ik")
    left, right = _batched(node, left, batch), _batched(node, right, batch)
    product = relay.nn.batch_matmul(left, right, transpose_b=False)
    return product if len(batch) == 1 else reshaped(node, product, [*batch, a[-2], b[-1]], operands)


def _are_unnamed(dims: Sequence[Dim]) -> bool:
    """Whether no reshape can say *dims*: several that have neither a number nor a name."""
    return sum(isinstance(d, Any) and not d.name for d in dims) > 1


def _leading(shape: Sequence[Dim], batch: Sequence[Dim]) -> list[Dim]:
    """The leading sizes of an operand, with ones before them for those of *batch* that it lacks."""
    return [1] * (len(batch) - len(shape) + 2) + list(shape[:-2])


def _must_spread(shape: Sequence[Dim], batch: Sequence[Dim]) -> bool:
    """True when an operand must be broadcast before batch_matmul, which itself broadcasts one dimension or a 1."""
    lead = _leading(shape, batch)
    return len(batch) != 1 and lead != list(batch) and any(d != 1 for d in lead)


def _batched(node: OnnxNode, operand: RelayExpr, batch: Sequence[Dim]) -> RelayExpr:
    """*operand* with its leading dimensions as one: the whole batch, or 1, which batch_matmul broadcasts."""
    from byoc.relay.frontend.onnx.dims import reshaped

    shape = node.shape(operand)
    if len(shape) == 2 and _are_unnamed(shape):
        return relay.expand_dims(operand, 0)
    if all(d == 1 for d in _leading(shape, batch)):
        return operand if len(shape) == 3 else reshaped(node, operand, [1, *shape[-2:]], (operand,))
    if _must_spread(shape, batch):
        operand = relay.broadcast_to(operand, [*batch, *shape[-2:]])
    known = [d for d in batch if isinstance(d, int)]
    whole = math.prod(known) if len(known) == len(batch) else None
    return operand if len(batch) == 1 else reshaped(node, operand, [whole, *shape[-2:]], (operand,))


@converter("MatMulInteger")
def _matmul_integer(node: OnnxNode) -> RelayExpr:
    """Products of int32 after the zero points are taken off."""
    left, right = (relay.cast(node[i], "int32") for i in (0, 1))
    if node.optional(2) is not None:
        zero = relay.cast(node[2], "int32")
        left = relay.subtract(left, relay.expand_dims(zero, 1) if node.rank(zero) == 1 else zero)
    if node.optional(3) is not None:
        right = relay.subtract(right, relay.cast(node[3], "int32"))
    return matrix_product(node, left, right)


@converter("Einsum")
def _einsum(node: OnnxNode) -> RelayExpr:
    operands, equation = node.required_inputs(), node.attrs.string("equation")
    dtype = node.dtype(operands[0])
    if dtype != "bfloat16":
        return relay.einsum(operands, equation)
    wide = relay.einsum([relay.cast(operand, "float32") for operand in operands], equation)
    return relay.cast(wide, dtype)


@converter("Det")
def _det(node: OnnxNode) -> RelayExpr:
    return relay.det(node[0])
