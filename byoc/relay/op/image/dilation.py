"""``image.dilation2d``: the greatest sum of an image and a structuring element. Source: ``relay.image.dilation2d``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, same_dtype, tensor_arg
from byoc.relay.op.core.window import arranged, axes_of, differ, pad_pairs, per_axis, tensor_of, window_extent
from byoc.relay.op.nn.convolution.compute import pad_stage
from byoc.te import Index, PrimExpr, Tensor

LOWEST = {"float16": -65504.0, "float32": -3.4028234663852886e38, "float64": -1.7976931348623157e308}


@dataclass(frozen=True)
class Dilation2DAttrs(Attrs):
    """Attributes of ``image.dilation2d``; of four strides or dilations the first two count, as in Relay."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilations: tuple[int, ...] = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "IHW"
    out_dtype: str = ""


def _relation(types: Sequence[Type], attrs: Dilation2DAttrs) -> Type:
    data, weight = tensor_of(types[0], 4, "data"), tensor_of(types[1], 3, "weight")
    dims = [data.shape[a] for a in axes_of(attrs.data_layout, "NCHW", "data")]
    kernel = [weight.shape[a] for a in axes_of(attrs.kernel_layout, "IHW", "kernel")]
    if same_dtype([data, weight]) not in LOWEST or not is_float(attrs.out_dtype or data.dtype):
        raise TypeInferenceError(f"takes floats, got {data.dtype}")
    if differ(kernel[0], dims[1]) or not weight.is_static:
        raise TypeInferenceError(f"weight must have {dims[1]} channels of a known size, got {weight}")
    steps = zip(dims[2:], kernel[1:], attrs.strides[:2], attrs.dilations[:2], pad_pairs(attrs.padding, 2), strict=True)
    sizes = [window_extent(*step) for step in steps]
    return TensorType(arranged((*dims[:2], *sizes), "NCHW", attrs.data_layout), attrs.out_dtype or data.dtype)


def _compute(attrs: Dilation2DAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, weight = inputs
    pads = dict(zip("HW", pad_pairs(attrs.padding, 2), strict=True))
    padded = pad_stage(data, [pads.get(letter, (0, 0)) for letter in attrs.data_layout], LOWEST[data.dtype])
    row, column = (te.reduce_axis(weight.shape[attrs.kernel_layout.index(letter)]) for letter in "HW")

    def element(*index: Index) -> PrimExpr:
        at: dict[str, PrimExpr] = dict(zip(attrs.data_layout, index, strict=True))
        taps = {"I": at["C"], "H": row, "W": column}
        for letter, tap, stride, step in zip("HW", (row, column), attrs.strides[:2], attrs.dilations[:2], strict=True):
            at[letter] = at[letter] * stride + tap * step
        value = padded[tuple(at[letter] for letter in attrs.data_layout)]
        return te.max(value + weight[tuple(taps[letter] for letter in attrs.kernel_layout)], [row, column])

    result = te.compute(te.shape_of(out_type), element, "dilation2d")
    if result.dtype == out_type.dtype:
        return [result]
    return [te.compute(result.shape, lambda *i: te.cast(out_type.dtype, result(*i)), "dilation2d_out")]


def _operations(attrs: Dilation2DAttrs, types: Sequence[Type], out_type: TensorType) -> int:
    sizes = (*out_type.shape, *tensor_arg(types, 1).shape)
    channels = tensor_arg(types, 1).shape[attrs.kernel_layout.index("I")]
    return 2 * math.prod(1 if isinstance(d, Any) else d for d in sizes) // max(int(channels), 1)


register_op(
    "image.dilation2d",
    inputs=("data", "weight"),
    attrs=Dilation2DAttrs,
    rel=_relation,
    compute=_compute,
    operations=_operations,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.WINDOW),
    doc="Grey dilation: the greatest sum of a window and a structuring element.",
    samples=(
        Sample([(1, 2, 6, 7), (2, 3, 2)], {"padding": (1, 0, 1, 1)}),
        Sample(
            [(1, 7, 6, 3), (2, 2, 3)],
            {"strides": (2, 1), "dilations": (2, 3), "data_layout": "NHWC", "kernel_layout": "HWI"},
        ),
    ),
).set_support_level(5)


def _steps(numbers: Ints, what: str) -> tuple[int, ...]:
    if not isinstance(numbers, int) and len(numbers) == 4:
        return tuple(numbers)
    return per_axis(numbers, 2, what)


@dataclass(eq=False, repr=False)
class Dilation2DArguments(WindowArguments):
    """Arguments of ``dilation2d``."""

    AXES = 2
    data: Operand
    weight: Operand
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilations: Ints = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "IHW"
    out_dtype: str = ""


@takes_fields_of(Dilation2DArguments)
def dilation2d(given: Dilation2DArguments) -> Call:
    """``T[N, C, H, W], T[C, h, w] -> T[N, C, OH, OW]``. Source: ``relay.image.dilation2d``."""
    attrs = given.attrs(
        Dilation2DAttrs,
        strides=_steps(given.strides, "strides"),
        dilations=_steps(given.dilations, "dilations"),
    )
    return make_call("image.dilation2d", [as_expr(given.data), as_expr(given.weight)], attrs)
