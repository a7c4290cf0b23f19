"""Matrix products: ``nn.dense``, ``nn.matmul``, ``nn.batch_matmul``. Source: ``relay/op/nn/nn.cc``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.op_parts import Inputs
from byoc.ir.traits import ProductForm, product
from byoc.ir.types import Any, Dim, TensorType, Type, tensor_types
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.indexing import broadcast_index
from byoc.relay.op.core.type_relations import tensor_arg, unify_dim
from byoc.relay.op.core.untyped_inputs import dense_weight, matmul_weight
from byoc.relay.op.core.window import differ, tensor_of
from byoc.te import Index, PrimExpr, Tensor


def _dtype(a: TensorType, b: TensorType, out_dtype: str) -> str:
    if not out_dtype and a.dtype != b.dtype:
        raise TypeInferenceError(f"the factors are {a.dtype} and {b.dtype}: cast one, or give out_dtype")
    return out_dtype or a.dtype


def _matrix(ty: TensorType, transpose: bool) -> tuple[Dim, Dim]:
    rows, columns = ty.shape[-2:]
    return (columns, rows) if transpose else (rows, columns)


def _check_reduction(left: Dim, right: Dim) -> None:
    if differ(left, right):
        raise TypeInferenceError(f"the left factor has {left} columns, the right one {right} rows")


def _dense_relation(types: Sequence[Type], attrs: DenseAttrs) -> TensorType:
    data, weight = tensor_arg(types, 0), tensor_of(types[1], 2, "weight")
    if data.ndim < 1:
        raise TypeInferenceError("data must have at least one dimension, got a scalar")
    if differ(data.shape[-1], weight.shape[1]):
        raise TypeInferenceError(f"data has {data.shape[-1]} features, the weight expects {weight.shape[1]}")
    if attrs.units is not None and differ(attrs.units, weight.shape[0]):
        raise TypeInferenceError(f"units is {attrs.units}, the weight has {weight.shape[0]} rows")
    return TensorType((*data.shape[:-1], weight.shape[0]), _dtype(data, weight, attrs.out_dtype))


def _matmul_relation(types: Sequence[Type], attrs: MatmulAttrs) -> TensorType:
    a, b = tensor_arg(types, 0, "tensor_a"), tensor_of(types[1], 2, "tensor_b")
    if a.ndim < 2:
        raise TypeInferenceError(f"tensor_a must have at least 2 dimensions, got {a}")
    (rows, left), (right, columns) = _matrix(a, attrs.transpose_a), _matrix(b, attrs.transpose_b)
    _check_reduction(left, right)
    if attrs.units is not None and differ(attrs.units, columns):
        raise TypeInferenceError(f"units is {attrs.units}, tensor_b gives {columns} columns")
    return TensorType((*a.shape[:-2], rows, columns), _dtype(a, b, attrs.out_dtype))


def _batch_matmul_relation(types: Sequence[Type], attrs: BatchMatmulAttrs) -> TensorType:
    a, b = tensor_of(types[0], 3, "tensor_a"), tensor_of(types[1], 3, "tensor_b")
    (rows, left), (right, columns) = _matrix(a, attrs.transpose_a), _matrix(b, attrs.transpose_b)
    _check_reduction(left, right)
    batches = a.shape[0], b.shape[0]
    batch = batches[1 - batches.index(1)] if 1 in batches else unify_dim(*batches)
    if batch is None:
        raise TypeInferenceError(f"batches of {batches[0]} and {batches[1]} do not fit: they must agree, or one be 1")
    return TensorType((batch, rows, columns), _dtype(a, b, attrs.out_dtype))


def _product(a: Tensor, b: Tensor, out: TensorType, transpose_a: bool, transpose_b: bool, name: str) -> list[Tensor]:
    """``a @ b``: leading axes of *a* are rows or a batch; *b* has a batch axis where *out* and it have three."""
    k = te.reduce_axis(a.shape[-2] if transpose_a else a.shape[-1], "k")
    shape = te.shape_of(out)

    def batch_of(tensor: Tensor, lead: Sequence[Index]) -> list[PrimExpr]:
        kept = lead[len(lead) - (tensor.ndim - 2) :]
        return [broadcast_index(i, s, o) for i, s, o in zip(kept, tensor.shape, shape, strict=False)]

    def element(*index: Index) -> PrimExpr:
        lead, row, column = index[:-2], index[-2:-1] if a.ndim > 1 else (), index[-1]
        left = [*batch_of(a, lead), *((k, *row) if transpose_a else (*row, k))] if row else [k]
        right = [*batch_of(b, lead), *((column, k) if transpose_b else (k, column))]
        return te.sum(te.cast(out.dtype, a(*left)) * te.cast(out.dtype, b(*right)), k)

    return [te.compute(shape, element, name=name, tag="matmul")]


def _dense_compute(attrs: DenseAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    return _product(inputs[0], inputs[1], out_type, False, True, "dense")


def _matmul_compute(attrs: MatmulAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    return _product(inputs[0], inputs[1], out_type, attrs.transpose_a, attrs.transpose_b, "matmul")


def _batch_matmul_compute(attrs: BatchMatmulAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    return _product(inputs[0], inputs[1], out_type, attrs.transpose_a, attrs.transpose_b, "batch_matmul")


def _operations(attrs: DenseAttrs | MatmulAttrs | BatchMatmulAttrs, types: Sequence[Type], out_type: Type) -> int:
    a, out = tensor_arg(types, 0), tensor_types(out_type)[0]
    transposed = not isinstance(attrs, DenseAttrs) and attrs.transpose_a
    sizes = (*out.shape, a.shape[-2] if transposed else a.shape[-1])
    return 2 * math.prod(1 if isinstance(d, Any) else d for d in sizes)


def dense(data: RelayExpr, weight: RelayExpr, units: int | None = None, out_dtype: str = "") -> Call:
    """``data @ weight.T``: [..., K] by [units, K] to [..., units]. Source: ``relay.nn.dense``."""
    return make_call("nn.dense", [data, weight], DenseAttrs(units, out_dtype))


def matmul(
    tensor_a: RelayExpr,
    tensor_b: RelayExpr,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Call:
    """``a @ b`` with either transposed. Source: ``relay.nn.matmul``."""
    return make_call("nn.matmul", [tensor_a, tensor_b], MatmulAttrs(units, out_dtype, transpose_a, transpose_b))


def batch_matmul(
    tensor_a: RelayExpr, tensor_b: RelayExpr, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = True
) -> Call:
    """A product for each batch item, *tensor_b* transposed by default. Source: ``relay.nn.batch_matmul``."""
    return make_call("nn.batch_matmul", [tensor_a, tensor_b], BatchMatmulAttrs(out_dtype, transpose_a, transpose_b))


register_op(
    "nn.dense",
    inputs=Inputs(("data", "weight"), infer=dense_weight),
    rel=_dense_relation,
    doc="Product with a transposed matrix.",
    attrs=DenseAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=product(ProductForm.DENSE),
    compute=_dense_compute,
    operations=_operations,
    samples=[
        Sample([(3, 7), (5, 7)], {"units": 5}),
        Sample([(2, 3, 4), (5, 4)]),
        Sample([(3, 9), (4, 9)], {"out_dtype": "int32"}, dtype="int8", low=-100, high=100),
    ],
).set_support_level(1)
register_op(
    "nn.matmul",
    inputs=Inputs(("tensor_a", "tensor_b"), infer=matmul_weight),
    rel=_matmul_relation,
    doc="Product of two matrices.",
    attrs=MatmulAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=product(ProductForm.MATRICES),
    compute=_matmul_compute,
    operations=_operations,
    samples=[
        Sample([(3, 7), (7, 5)]),
        Sample([(7, 3), (5, 7)], {"transpose_a": True, "transpose_b": True, "units": 5}),
        Sample([(2, 3, 4), (4, 5)]),
    ],
).set_support_level(1)
register_op(
    "nn.batch_matmul",
    inputs=("tensor_a", "tensor_b"),
    rel=_batch_matmul_relation,
    doc="Product of two matrices for each batch item.",
    attrs=BatchMatmulAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=product(ProductForm.MATRICES),
    compute=_batch_matmul_compute,
    operations=_operations,
    samples=[
        Sample([(2, 3, 7), (2, 5, 7)], {"transpose_b": True}),
        Sample([(2, 7, 3), (1, 7, 5)], {"transpose_a": True, "transpose_b": False}),
        Sample([(1, 3, 4), (3, 5, 4)], {"transpose_b": True}),
        Sample([(2, 3, 7), (2, 7, 5)], {"transpose_b": False}),
    ],
)
