"""Copies of a tensor in which some elements are replaced: ``sequence_mask``, ``strided_set``, ``matrix_set_diag``.

Source: ``relay/op/tensor/transform.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import move
from byoc.ir.types import Dim, TensorType, Type
from byoc.relay.expr import Call, constant
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import is_integer, same_dtype, tensor_arg, unify_dim


@dataclass(frozen=True)
class SequenceMaskAttrs(Attrs):
    """Attributes of ``sequence_mask``: the number that is written, and the axis of time, 0 or 1."""

    mask_value: float = 0.0
    axis: int = 0


@dataclass(frozen=True)
class MatrixSetDiagAttrs(Attrs):
    """Attributes of ``matrix_set_diag``: diagonals *k1* to *k2*, and the side to which short ones are aligned."""

    k1: int = 0
    k2: int = 0
    super_diag_right_align: bool = True
    sub_diag_right_align: bool = False


def _sequence_mask_rel(types: Sequence[Type], attrs: SequenceMaskAttrs) -> Type:
    data, lengths = tensor_arg(types, 0), tensor_arg(types, 1, "valid_length")
    if attrs.axis not in (0, 1):
        raise TypeInferenceError(f"axis is 0 or 1, got {attrs.axis}")
    if data.ndim < 2 or lengths.ndim != 1 or unify_dim(data.shape[1 - attrs.axis], lengths.shape[0]) is None:
        raise TypeInferenceError(f"valid_length must hold a number for each sequence of {data}, got {lengths}")
    return data


def _sequence_mask_compute(
    attrs: SequenceMaskAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data, lengths = inputs
    mask = te.const(attrs.mask_value if "float" in data.dtype else int(attrs.mask_value), data.dtype)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        length = te.cast("float64", lengths[(i[1 - attrs.axis],)])
        return te.if_then_else(te.cast("float64", i[attrs.axis]) >= length, mask, data[i])

    return [te.compute(data.shape, element, "sequence_mask")]


register_op(
    "sequence_mask",
    inputs=("data", "valid_length"),
    attrs=SequenceMaskAttrs,
    rel=_sequence_mask_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_sequence_mask_compute,
    doc="A copy of sequences in which what lies beyond the length of each is one number.",
    samples=(
        Sample([(4, 3, 2), np.array([1, 4, 0], "int32")], {"mask_value": -2.5}),
        Sample([(3, 4), np.array([1, 4, 2], "int64")], {"axis": 1}),
        Sample([(3, 2), np.array([1.5, 2.0], "float32")], {"mask_value": 7.0}, "int32", -9, 9),
    ),
)


def sequence_mask(data: Operand, valid_length: Operand, mask_value: float = 0, axis: int = 0) -> Call:
    """*data* ``T[time, batch, ...]`` (*axis* 0) or ``T[batch, time, ...]``, masked beyond *valid_length* ``[batch]``.

    Source: ``relay.sequence_mask``.
    """
    args = [as_expr(data), as_expr(valid_length)]
    return make_call("sequence_mask", args, SequenceMaskAttrs(float(mask_value), int(axis)))


def _strided_set_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data, v = tensor_arg(types, 0), tensor_arg(types, 1, "v")
    same_dtype([data, v])
    if v.ndim != data.ndim:
        raise TypeInferenceError(f"v must have the rank of data, got {v} for {data}")
    for k, name in enumerate(("begin", "end", "strides"), 2):
        ty = tensor_arg(types, k, name)
        if ty.ndim != 1 or not is_integer(ty.dtype):
            raise TypeInferenceError(f"{name} must be a vector of integers, got {ty}")
    return data


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


register_op(
    "strided_set",
    inputs=("data", "v", "begin", "end", "strides"),
    rel=_strided_set_rel,
    traits=move(0, 1),
    doc="A copy of the data in which a slice is replaced by the elements of another tensor.",
    samples=(
        Sample([(3, 4, 4), (2, 2, 2), _ints(1, 0, 0), _ints(3, 2, 2), _ints(1)]),
        Sample([(3, 4), (2, 2), _ints(0, 3), _ints(2, -5), _ints(1, -2)]),
    ),
).set_support_level(4)


def strided_set(
    data: Operand,
    v: Operand,
    begin: Operand | Sequence[int],
    end: Operand | Sequence[int],
    strides: Operand | Sequence[int] | None = None,
) -> Call:
    """*data* with the slice *begin*, *end*, *strides* replaced by *v*. Source: ``relay.strided_set``."""

    def vector(numbers: Operand | Sequence[int]) -> Operand:
        return constant(list(numbers), "int32") if isinstance(numbers, Sequence) else numbers

    parts = [vector(p) for p in (begin, end, [1] if strides is None else strides)]
    return make_call("strided_set", [as_expr(data), as_expr(v), *(as_expr(p) for p in parts)])


def _diagonal_shape(data: TensorType, attrs: MatrixSetDiagAttrs) -> list[Dim | None]:
    rows, columns = data.shape[-2:]
    shape: list[Dim | None] = list(data.shape[:-2])
    if attrs.k1 != attrs.k2:
        shape.append(attrs.k2 - attrs.k1 + 1)
    if isinstance(rows, int) and isinstance(columns, int):
        if attrs.k1 <= -rows or attrs.k2 >= columns:
            raise TypeInferenceError(f"diagonals {attrs.k1} to {attrs.k2} are outside a matrix of {rows} x {columns}")
        return [*shape, min(rows + min(attrs.k2, 0), columns - max(attrs.k1, 0))]
    return [*shape, None]


def _matrix_set_diag_rel(types: Sequence[Type], attrs: MatrixSetDiagAttrs) -> Type:
    data, diagonal = tensor_arg(types, 0), tensor_arg(types, 1, "diagonal")
    same_dtype([data, diagonal])
    if data.ndim < 2 or attrs.k1 > attrs.k2:
        raise TypeInferenceError(f"takes matrices and diagonals k1 <= k2, got {data}, {attrs.k1} and {attrs.k2}")
    expected = _diagonal_shape(data, attrs)
    fits = len(expected) == diagonal.ndim
    if not fits or any(
        e is not None and unify_dim(e, d) is None for e, d in zip(expected, diagonal.shape, strict=True)
    ):
        raise TypeInferenceError(f"diagonal must have the shape {tuple(expected)}, got {diagonal.shape}")
    return data


def _matrix_set_diag_compute(
    attrs: MatrixSetDiagAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data, diagonal = inputs
    rows, columns = as_index(data.shape[-2]), as_index(data.shape[-1])
    longest = as_index(diagonal.shape[-1])

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        k = i[-1] - i[-2]
        upper_gap = longest - te.minimum(rows, columns - k) if attrs.super_diag_right_align else as_index(0)
        lower_gap = longest - te.minimum(rows + k, columns) if attrs.sub_diag_right_align else as_index(0)
        gap = te.if_then_else(k >= 0, upper_gap, lower_gap)
        place = te.if_then_else(k >= 0, i[-2], i[-1]) + gap
        which = [] if attrs.k1 == attrs.k2 else [as_index(attrs.k2) - k]
        inside = te.all_of(k >= attrs.k1, k <= attrs.k2)
        return te.if_then_else(inside, diagonal[(*i[:-2], *which, place)], data[i])

    return [te.compute(data.shape, element, "matrix_set_diag")]


register_op(
    "matrix_set_diag",
    inputs=("data", "diagonal"),
    attrs=MatrixSetDiagAttrs,
    rel=_matrix_set_diag_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(0, 1),
    compute=_matrix_set_diag_compute,
    doc="A copy of matrices in which a band of diagonals is replaced.",
    samples=(
        Sample([(2, 3, 4), (2, 3)]),
        Sample([(3, 4), (3,)], {"k1": 1, "k2": 1}),
        Sample([(4, 5), (4, 4)], {"k1": -1, "k2": 2}),
        Sample([(4, 3), (3, 3)], {"k1": -2, "k2": 0, "super_diag_right_align": False, "sub_diag_right_align": True}),
    ),
)


def matrix_set_diag(data: Operand, diagonal: Operand, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT") -> Call:
    """*data* with the diagonals *k* (one, or the first and the last) replaced. Source: ``relay.matrix_set_diag``.

    *align* says where diagonals above and below the main one stand in the rows of *diagonal*.
    """
    first, last = (k, k) if isinstance(k, int) else (k[0], k[-1])
    attrs = MatrixSetDiagAttrs(first, last, align[:5] == "RIGHT", align[-5:] == "RIGHT")
    return make_call("matrix_set_diag", [as_expr(data), as_expr(diagonal)], attrs)
