"""Running sums and products: ``cumsum`` and ``cumprod``. Source: ``relay/op/transform`` (ScanopAttrs).

The tensor expression has no steps that wait for each other: an axis is cut into blocks, each element folds what stands
before it in its block, and the folds of whole blocks are scanned in turn. So every element has about as many terms as a
block, all elements may be computed at once, and long sums of floats lose less than added one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from byoc import te
from byoc.ir.attrs import Attrs
from byoc.ir.op import ComputeOf, Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import size_of, split_index
from byoc.relay.op.core.known_shapes import shape_product
from byoc.relay.op.core.type_relations import normalize_axis, tensor_arg
from byoc.te.expr import Dimension, PrimExpr

BLOCK = 32
Element = Callable[[Sequence[PrimExpr]], PrimExpr]
Place = TypeVar("Place", PrimExpr, Dimension)


@dataclass(frozen=True)
class ScanopAttrs(Attrs):
    """Attributes of ``cumsum`` and ``cumprod``: no axis flattens, an empty dtype is the data's."""

    axis: int | None = None
    dtype: str = ""
    exclusive: bool = False


def _scan_rel(types: Sequence[Type], attrs: ScanopAttrs) -> Type:
    data = tensor_arg(types, 0)
    dtype = attrs.dtype or data.dtype
    if attrs.axis is None:
        return TensorType([shape_product(data.shape).as_dim()], dtype)
    normalize_axis(attrs.axis, data.ndim)
    return TensorType(data.shape, dtype)


@dataclass(frozen=True)
class _Scan:
    """One operator: how two folds become one, and the fold of nothing."""

    fold: Callable[[PrimExpr, te.Index], PrimExpr]
    both: Callable[[PrimExpr, PrimExpr], PrimExpr]
    neutral: int

    def over(self, element: Element, shape: Sequence[Dimension], axis: int, exclusive: bool, name: str) -> te.Tensor:
        """The scan of a tensor of *shape* with these elements along *axis*."""
        size = shape[axis]
        if not isinstance(size, int) or size > BLOCK:
            return self._by_blocks(element, shape, axis, exclusive, name)
        return te.compute(shape, lambda *i: self._before(element, i, axis, size, exclusive), name)

    def _by_blocks(
        self, element: Element, shape: Sequence[Dimension], axis: int, exclusive: bool, name: str
    ) -> te.Tensor:
        size = shape[axis]
        count = (size + (BLOCK - 1)) // BLOCK

        def block(*i: PrimExpr) -> PrimExpr:
            k = te.reduce_axis(BLOCK, "k")
            place = i[axis] * BLOCK + k
            return self._where(place < size, element(_moved(i, axis, place)), k)

        def one(*i: PrimExpr) -> PrimExpr:
            start = i[axis] // BLOCK * BLOCK
            return self.both(
                self._before(element, i, axis, BLOCK, exclusive, start), before[_moved(i, axis, i[axis] // BLOCK)]
            )

        whole = te.compute(_moved(shape, axis, count), block, f"{name}_block")
        if isinstance(count, int):
            before = self.over(lambda i: whole[tuple(i)], whole.shape, axis, True, f"{name}_before")
        else:  # a size with a name: how many times it can be cut is not known
            before = te.compute(
                whole.shape, lambda *i: self._before(lambda j: whole[tuple(j)], i, axis, count, True), f"{name}_before"
            )
        return te.compute(shape, one, name)

    def _before(
        self,
        element: Element,
        i: Sequence[PrimExpr],
        axis: int,
        count: Dimension,
        exclusive: bool,
        start: PrimExpr | int = 0,
    ) -> PrimExpr:
        """The fold of what stands before place *i*, or up to it, among *count* places from *start* on."""
        k = te.reduce_axis(count, "k")
        place = k + start
        return self._where(place < i[axis] if exclusive else place <= i[axis], element(_moved(i, axis, place)), k)

    def _where(self, condition: PrimExpr, value: PrimExpr, k: te.Index) -> PrimExpr:
        return self.fold(te.if_then_else(condition, value, te.const(self.neutral, value.dtype)), k)


def _moved(places: Sequence[Place], axis: int, place: Place) -> tuple[Place, ...]:
    moved = list(places)
    moved[axis] = place
    return tuple(moved)


def _compute(scan: _Scan, name: str) -> ComputeOf[ScanopAttrs, te.Tensor, TensorType]:
    def compute(attrs: ScanopAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
        data, shape = inputs[0], inputs[0].shape
        axis = 0 if attrs.axis is None else normalize_axis(attrs.axis, data.ndim)

        def element(i: Sequence[PrimExpr]) -> PrimExpr:
            index = split_index(i[0], shape) if attrs.axis is None else i
            return te.cast(out_type.dtype, data[tuple(index)])

        rows = (size_of(shape),) if attrs.axis is None else shape
        return [scan.over(element, rows, axis, attrs.exclusive, name)]

    return compute


def _operations(attrs: Attrs | None, in_types: Sequence[Type], out_type: Type) -> int:
    size = 1
    for dim in tensor_types(in_types[0])[0].shape:
        size *= dim if isinstance(dim, int) else 1
    return size * BLOCK


_SCANS = {
    "cumsum": ("sum", _Scan(te.sum, lambda a, b: a + b, 0)),
    "cumprod": ("product", _Scan(te.prod, lambda a, b: a * b, 1)),
}
_TRAITS = Traits(OpKind.OTHER, precision=Conversion.NEVER)
for _name, (_what, _scan) in _SCANS.items():
    register_op(
        _name,
        inputs=("data",),
        attrs=ScanopAttrs,
        rel=_scan_rel,
        traits=_TRAITS,
        compute=_compute(_scan, _name),
        operations=_operations,
        doc=f"The {_what} of the elements up to each one along an axis; exclusive: of those before it.",
        samples=(
            Sample([(2, 3)], {"axis": 1}),
            Sample([(2, 3)]),
            Sample([(2, 3)], {"axis": 0, "exclusive": True}),
            Sample([(2, 75)], {"axis": -1, "dtype": "int64"}, "int32", -1, 2),
            Sample([(2, 70, 3)], {"axis": 1, "exclusive": True}, "float32", 0.9, 1.1),
            Sample([(9, 8)]),
        ),
    )


def cumsum(data: Operand, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """The running sum of *data* along *axis*. Source: ``relay.cumsum``."""
    return make_call("cumsum", [as_expr(data)], ScanopAttrs(axis, dtype or "", bool(exclusive)))


def cumprod(data: Operand, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """The running product of *data* along *axis*. Source: ``relay.cumprod``."""
    return make_call("cumprod", [as_expr(data)], ScanopAttrs(axis, dtype or "", bool(exclusive)))
