"""Products of integers with fixed-point numbers: ``x * multiplier * 2**(shift - 31)``, rounded, halves up.

The product is made in int64, a positive shift before it and a negative one after it, as ``tir.q_multiply_shift`` does:
``(((x << max(shift, 0)) * multiplier) + 2**(r - 1)) >> r`` with ``r = 31 + max(-shift, 0)``. Source:
``relay.fixed_point_multiply`` and ``relay.fixed_point_multiply_per_axis``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, normalize_axes, tensor_arg, unify_dim

FRACTION_BITS = 31
WIDE = "int64"


@dataclass(frozen=True)
class FixedPointMultiplyAttrs(Attrs):
    """Attributes of ``fixed_point_multiply``: a Q31 multiplier, and a power of 2 that is positive to the left."""

    multiplier: int = 0
    shift: int = 0


@dataclass(frozen=True)
class FixedPointMultiplyPerAxisAttrs(Attrs):
    """Attributes of ``fixed_point_multiply_per_axis``: which shifts are needed, and the axes of the multipliers."""

    is_lshift_required: bool = False
    is_rshift_required: bool = False
    axes: tuple[int, ...] = ()


def _integers_rel(types: Sequence[Type], attrs: FixedPointMultiplyAttrs) -> TensorType:
    data = tensor_arg(types, 0)
    if not is_integer(data.dtype):
        raise TypeInferenceError(f"takes integers, got {data.dtype}")
    return data


def _wide(value: te.PrimExpr) -> te.PrimExpr:
    return te.cast(WIDE, value)


def _rounded_shift(product: te.PrimExpr, bits: te.PrimExpr) -> te.PrimExpr:
    half = te.binary("shift_left", te.const(1, WIDE), bits - 1)
    return te.binary("shift_right", product + half, bits)


def _multiply_compute(
    attrs: FixedPointMultiplyAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data, left, right = inputs[0], max(attrs.shift, 0), max(-attrs.shift, 0)
    factor, bits = te.const(attrs.multiplier << left, WIDE), te.const(FRACTION_BITS + right, WIDE)
    half = te.const(1 << (FRACTION_BITS + right - 1), WIDE)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        return te.cast(data.dtype, te.binary("shift_right", _wide(data[i]) * factor + half, bits))

    return [te.compute(data.shape, element, "fixed_point_multiply")]


_NUMBERS = np.array([[-2147483648, -1000, -3, -1, 0], [1, 3, 1000, 65535, 2147483647]], "int32")
register_op(
    "fixed_point_multiply",
    inputs=("data",),
    attrs=FixedPointMultiplyAttrs,
    rel=_integers_rel,
    pattern=OpPattern.ELEMWISE,
    compute=_multiply_compute,
    doc="Each integer times a fixed-point number of 31 fractional bits and a power of 2, rounded with halves up.",
    samples=(
        Sample([_NUMBERS], {"multiplier": 1073741824, "shift": 0}),
        Sample([_NUMBERS], {"multiplier": 1395864371, "shift": -4}),
        Sample([_NUMBERS // 1024], {"multiplier": 1999999999, "shift": 3}),
    ),
).set_support_level(3)


def fixed_point_multiply(data: Operand, multiplier: int, shift: int) -> Call:
    """*data* times ``multiplier * 2**(shift - 31)``. Source: ``relay.fixed_point_multiply``.

    ``data: int32[...] -> int32[...]``.
    """
    return make_call("fixed_point_multiply", [as_expr(data)], FixedPointMultiplyAttrs(int(multiplier), int(shift)))


_PARTS = ("multiplier", "lshift", "rshift")


def _per_axis_rel(types: Sequence[Type], attrs: FixedPointMultiplyPerAxisAttrs) -> Type:
    data = _integers_rel(types, FixedPointMultiplyAttrs())
    dims = [data.shape[a] for a in normalize_axes(attrs.axes, data.ndim)]
    for k, name in enumerate(_PARTS, 1):
        part = tensor_arg(types, k, name)
        if not is_integer(part.dtype):
            raise TypeInferenceError(f"{name} takes integers, got {part.dtype}")
        if part.ndim != len(dims) or any(unify_dim(a, b) is None for a, b in zip(dims, part.shape, strict=True)):
            raise TypeInferenceError(f"{name} must have the shape {tuple(dims)} of axes {attrs.axes}, got {part.shape}")
    return data


def _per_axis_compute(
    attrs: FixedPointMultiplyPerAxisAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data, multiplier, lshift, rshift = inputs
    axes = [a % data.ndim for a in attrs.axes]

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        place = tuple(i[a] for a in axes)
        value = _wide(data[i])
        if attrs.is_lshift_required:
            value = te.binary("shift_left", value, _wide(lshift[place]))
        value = value * _wide(multiplier[place])
        bits = te.const(FRACTION_BITS, WIDE)
        return te.cast(
            data.dtype, _rounded_shift(value, bits + _wide(rshift[place]) if attrs.is_rshift_required else bits)
        )

    return [te.compute(data.shape, element, "fixed_point_multiply_per_axis")]


_MULTIPLIERS = np.array([1073741824, 1395864371], "int32")
_SHIFTS = np.array([0, 3], "int32")
_NONE = np.zeros(2, "int32")
register_op(
    "fixed_point_multiply_per_axis",
    inputs=("data", *_PARTS),
    attrs=FixedPointMultiplyPerAxisAttrs,
    rel=_per_axis_rel,
    pattern=OpPattern.BROADCAST,
    traits=Traits(OpKind.POINTWISE),
    compute=_per_axis_compute,
    doc="Each integer times a fixed-point number of its channel, shifted to the left before and to the right after.",
    samples=(
        Sample([_NUMBERS, _MULTIPLIERS, _NONE, _SHIFTS], {"is_rshift_required": True, "axes": (0,)}),
        Sample([_NUMBERS // 1024, _MULTIPLIERS, _SHIFTS, _NONE], {"is_lshift_required": True, "axes": (0,)}),
        Sample(
            [
                _NUMBERS[:, :2] // 64,
                np.array([[7, 2000000000], [3, -9]], "int32"),
                np.eye(2).astype("int32"),
                np.array([[1, 5], [0, 2]], "int32"),
            ],
            {"is_lshift_required": True, "is_rshift_required": True, "axes": (0, -1)},
        ),
    ),
).set_support_level(3)


def fixed_point_multiply_per_axis(
    x: Operand,
    y: Operand,
    lshift: Operand,
    rshift: Operand,
    is_lshift_required: bool,
    is_rshift_required: bool,
    axes: int | Sequence[int],
) -> Call:
    """*x* times the fixed-point numbers *y* of its *axes*. Source: ``relay.fixed_point_multiply_per_axis``.

    ``x: int32[...], y, lshift, rshift: int32[the sizes of axes] -> int32[...]``.
    """
    numbers = (axes,) if isinstance(axes, int) else tuple(axes)
    attrs = FixedPointMultiplyPerAxisAttrs(bool(is_lshift_required), bool(is_rshift_required), numbers)
    return make_call("fixed_point_multiply_per_axis", [as_expr(v) for v in (x, y, lshift, rshift)], attrs)
