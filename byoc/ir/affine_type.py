"""What the integers of a tensor stand for: ``scale * (q - zero_point)``. Source: ``tvm.ir.affine_type``.

An affine type is kept beside an expression while float operators become integer ones; it is no type of the language.
"""

from __future__ import annotations

from collections.abc import Iterable

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.registry import get_global_func


class AffineType:
    """The root of affine types; they compare by structure, their expressions included."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return not self == other


class TensorAffineType(AffineType):
    """Scale and zero point of a tensor, the dtype of its integers, and the axis along which vectors of these lie."""

    __slots__ = ("axis", "dtype", "scale", "zero_point")

    def __init__(self, scale: RelayExpr, zero_point: RelayExpr, dtype: str, axis: int = -1):
        self.scale, self.zero_point = scale, zero_point
        self.dtype, self.axis = str(dtype), int(axis)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorAffineType) or (self.dtype, self.axis) != (other.dtype, other.axis):
            return False
        same = get_global_func("relay.ir.structural_equal")
        return bool(same(self.scale, other.scale) and same(self.zero_point, other.zero_point))

    def __hash__(self) -> int:
        return hash((self.dtype, self.axis))

    def __repr__(self) -> str:
        return f"TensorAffineType({self.scale!r}, {self.zero_point!r}, {self.dtype}, axis={self.axis})"


def as_tensor_affine_type(ty: AffineType | None) -> TensorAffineType:
    """*ty*, which is that of one tensor. Raises UserError for another."""
    if not isinstance(ty, TensorAffineType):
        raise UserError(f"the affine type of one tensor is needed, got {ty}")
    return ty


class TupleAffineType(AffineType):
    """The affine types of the fields of a tuple."""

    __slots__ = ("types",)

    def __init__(self, types: Iterable[AffineType]):
        self.types = tuple(types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleAffineType) and self.types == other.types

    def __hash__(self) -> int:
        return hash(self.types)

    def __repr__(self) -> str:
        return f"TupleAffineType({list(self.types)!r})"


def as_tuple_affine_type(ty: AffineType | None) -> TupleAffineType:
    """*ty*, which is that of a tuple. Raises UserError for another."""
    if not isinstance(ty, TupleAffineType):
        raise UserError(f"the affine type of a tuple is needed, got {ty}")
    return ty
