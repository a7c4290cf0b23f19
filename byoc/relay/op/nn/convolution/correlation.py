"""``nn.correlation``: how patches of two images match at a range of displacements. Source: ``relay.nn.correlation``.

As in FlowNet (Dosovitskiy et al., 2015): one output channel for each displacement, rows of them first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import is_float, same_dtype, tensor_arg, unify_dim
from byoc.relay.op.core.window import pad_pairs, tensor_of
from byoc.relay.op.nn.convolution.compute import pad_stage
from byoc.te import Index, PrimExpr, Tensor


@dataclass(frozen=True)
class CorrelationAttrs(Attrs):
    """Attributes of ``nn.correlation``: patch, greatest displacement, steps of places and of displacements."""

    kernel_size: int = 1
    max_displacement: int = 1
    stride1: int = 1
    stride2: int = 1
    padding: tuple[int, ...] = (0, 0, 0, 0)
    is_multiply: bool = True
    layout: str = "NCHW"

    @property
    def grid(self) -> int:
        """The number of displacements along one axis."""
        return 2 * (self.max_displacement // self.stride2) + 1


def _extent(size: Dim, pads: tuple[int, int], attrs: CorrelationAttrs) -> Dim:
    if isinstance(size, Any):
        return Any()
    border = attrs.max_displacement + (attrs.kernel_size - 1) // 2
    room = size + sum(pads) - 2 * border
    if room < 1:
        raise TypeInferenceError(f"displacements of {attrs.max_displacement} leave nothing of an axis of {size}")
    return -(-room // attrs.stride1)


def _relation(types: Sequence[Type], attrs: CorrelationAttrs) -> Type:
    first, second = tensor_of(types[0], 4, "data1"), tensor_of(types[1], 4, "data2")
    if attrs.layout != "NCHW":
        raise TypeInferenceError(f"layout is NCHW, got {attrs.layout!r}")
    if attrs.kernel_size < 1 or attrs.kernel_size % 2 == 0 or min(attrs.stride1, attrs.stride2) < 1:
        raise TypeInferenceError(f"kernel_size must be odd and strides positive, got {attrs}")
    if any(unify_dim(a, b) is None for a, b in zip(first.shape, second.shape, strict=True)):
        raise TypeInferenceError(f"data1 and data2 must have one shape, got {first} and {second}")
    if not is_float(same_dtype([first, second])):
        raise TypeInferenceError(f"takes floats, got {first.dtype}")
    sizes = [_extent(s, p, attrs) for s, p in zip(first.shape[2:], pad_pairs(attrs.padding, 2), strict=True)]
    return TensorType((first.shape[0], attrs.grid**2, *sizes), first.dtype)


def _compute(attrs: CorrelationAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    pads = [(0, 0), (0, 0), *pad_pairs(attrs.padding, 2)]
    first, second = (pad_stage(data, pads, 0.0, f"pad{k}") for k, data in enumerate(inputs))
    k, grid, dtype = attrs.kernel_size, attrs.grid, first.dtype
    channel, row, column = te.reduce_axis(first.shape[1]), te.reduce_axis(k), te.reduce_axis(k)
    # the first place has the patch and all displacements inside
    start = attrs.max_displacement

    def matched(n: Index, q: Index, y: Index, x: Index) -> PrimExpr:
        y1, x1 = y * attrs.stride1 + start, x * attrs.stride1 + start
        down = (q // grid - grid // 2) * attrs.stride2
        right = (q % grid - grid // 2) * attrs.stride2
        a = first[(n, channel, y1 + row, x1 + column)]
        b = second[(n, channel, y1 + row + down, x1 + column + right)]
        return te.sum(a * b if attrs.is_multiply else te.abs(a - b), [channel, row, column])

    sums = te.compute(te.shape_of(out_type), matched, "correlation")
    size = te.cast(dtype, as_index(first.shape[1])) * te.const(float(k * k), dtype)
    return [te.compute(sums.shape, lambda *i: sums(*i) / size, "correlation_mean")]


def _operations(attrs: CorrelationAttrs, types: Sequence[Type], out_type: TensorType) -> int:
    sizes = (*out_type.shape, tensor_arg(types, 0).shape[1])
    return 2 * attrs.kernel_size**2 * math.prod(1 if isinstance(d, Any) else d for d in sizes)


register_op(
    "nn.correlation",
    inputs=("data1", "data2"),
    attrs=CorrelationAttrs,
    rel=_relation,
    compute=_compute,
    operations=_operations,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="The mean product (or distance) of patches of two images at a range of displacements.",
    samples=(
        Sample([(1, 3, 8, 7), (1, 3, 8, 7)], {"max_displacement": 2, "padding": (2, 2, 2, 2)}),
        Sample(
            [(2, 2, 10, 9), (2, 2, 10, 9)],
            {
                "kernel_size": 3,
                "max_displacement": 2,
                "stride1": 2,
                "stride2": 2,
                "padding": (2, 1, 2, 1),
                "is_multiply": False,
            },
        ),
    ),
)


@dataclass(eq=False, repr=False)
class CorrelationArguments(WindowArguments):
    """Arguments of ``correlation``."""

    AXES = 2
    data1: Operand
    data2: Operand
    kernel_size: int
    max_displacement: int
    stride1: int
    stride2: int
    padding: Ints
    is_multiply: bool
    layout: str


@takes_fields_of(CorrelationArguments)
def correlation(given: CorrelationArguments) -> Call:
    """``T[N, C, H, W], T[N, C, H, W] -> T[N, displacements, OH, OW]``. Source: ``relay.nn.correlation``."""
    attrs = given.attrs(CorrelationAttrs, kernel_size=given.kernel_size, is_multiply=bool(given.is_multiply))
    return make_call("nn.correlation", [as_expr(given.data1), as_expr(given.data2)], attrs)
