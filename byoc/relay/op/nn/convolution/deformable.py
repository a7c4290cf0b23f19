"""``nn.deformable_conv2d``: every tap of every output is moved by an offset. Source: ``relay.nn.deformable_conv2d``.

Offsets ``[N, 2 * groups * kh * kw, OH, OW]`` hold (y, x) for each tap; between pixels data is interpolated linearly,
and what lies outside is 0 (Dai et al., "Deformable convolutional networks"). ``nn.deformable_columns`` are the moved
taps alone, for those who weight each of them (Zhu et al., "Deformable ConvNets v2").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, all_given
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.op_parts import Inputs
from byoc.ir.size_var import times
from byoc.ir.traits import OpKind, ProductForm, Traits, same_kernels
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import DeformableConv2DAttrs
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import is_float, is_integer
from byoc.relay.op.core.untyped_inputs import conv_weight
from byoc.relay.op.core.window import arranged, axes_of, differ, tensor_of
from byoc.relay.op.nn.convolution.geometry import Geometry, conv_geometry, conv_operations, size_of

Types = Sequence[Type | None]


def _geometry(types: Sequence[Type], attrs: DeformableConv2DAttrs) -> Geometry:
    return conv_geometry([types[0], types[2]], attrs, 2)


def _offset_dims(geometry: Geometry, attrs: DeformableConv2DAttrs) -> tuple[Dim, ...]:
    unknown = any(isinstance(k, Any) for k in geometry.kernel)
    taps: Dim = Any() if unknown else 2 * attrs.deformable_groups * math.prod(geometry.kernel)
    return (geometry.batch, taps, *geometry.out_sizes)


def _relation(types: Sequence[Type], attrs: DeformableConv2DAttrs) -> Type:
    geometry, offset = _geometry(types, attrs), tensor_of(types[1], 4, "offset")
    groups = attrs.deformable_groups
    if groups < 1 or (isinstance(geometry.channels, int) and geometry.channels % groups):
        raise TypeInferenceError(f"{geometry.channels} channels cannot be divided into {groups} deformable groups")
    found = [offset.shape[a] for a in axes_of(attrs.data_layout, "NCHW", "offset")]
    expected = _offset_dims(geometry, attrs)
    if any(differ(a, b) for a, b in zip(found, expected, strict=True)):
        raise TypeInferenceError(f"offset must have the sizes N, C, H, W {expected}, got {offset}")
    return geometry.result(attrs.out_layout or attrs.data_layout)


def _infer_inputs(types: Types, out: Type | None, attrs: DeformableConv2DAttrs) -> Types:
    """The weight from channels and kernel size, and the offset from both."""
    data, offset, weight = types
    found = conv_weight(2)([data, weight], out, attrs)
    if offset is None and all_given(found):
        geometry = conv_geometry(found, attrs, 2)
        dims = arranged(_offset_dims(geometry, attrs), "NCHW", attrs.data_layout)
        offset = TensorType(dims, geometry.dtype)
    return [found[0], offset, found[1]]


def _operations(attrs: DeformableConv2DAttrs, types: Sequence[Type], out_type: TensorType) -> int:
    geometry = _geometry(types, attrs)
    sampled = math.prod(1 if isinstance(d, Any) else d for d in (geometry.batch, geometry.channels, *out_type.shape))
    return conv_operations(geometry) + 8 * sampled * size_of(geometry.kernel) // size_of([geometry.out])


register_op(
    "nn.deformable_conv2d",
    inputs=Inputs(("data", "offset", "weight"), infer=_infer_inputs),
    attrs=DeformableConv2DAttrs,
    rel=_relation,
    operations=_operations,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(
        OpKind.PRODUCT,
        product=ProductForm.OTHER,
        any_layout=True,
        kernel_layouts=same_kernels({"NCHW": "OIHW", "NHWC": "HWIO"}),
    ),
    doc="Convolution whose every tap is moved by an offset of its own.",
    samples=(
        Sample([(1, 4, 6, 5), (1, 18, 6, 5), (3, 4, 3, 3)], {"padding": (1, 1, 1, 1)}),
        Sample(
            [(2, 4, 7, 8), (2, 16, 3, 4), (4, 2, 2, 2)],
            {"strides": (2, 2), "deformable_groups": 2, "groups": 2},
        ),
        Sample(
            [(1, 5, 5, 2), (1, 3, 3, 8), (2, 2, 2, 3)],
            {"dilation": (2, 2), "data_layout": "NHWC", "kernel_layout": "HWIO"},
        ),
    ),
).set_support_level(5)


@dataclass(eq=False, repr=False)
class DeformableConv2DArguments(WindowArguments):
    """Arguments of ``deformable_conv2d``."""

    AXES = 2
    data: RelayExpr
    offset: RelayExpr
    weight: RelayExpr
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    deformable_groups: int = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Ints | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = ""


@takes_fields_of(DeformableConv2DArguments)
def deformable_conv2d(given: DeformableConv2DArguments) -> Call:
    """2-d convolution with moved taps. Source: ``relay.nn.deformable_conv2d``. Raises UserError for a wrong count."""
    inputs = [given.data, given.offset, given.weight]
    return make_call("nn.deformable_conv2d", inputs, given.attrs(DeformableConv2DAttrs))


@dataclass(frozen=True)
class DeformableColumnsAttrs(Attrs):
    """Attributes of ``nn.deformable_columns``; ``padding`` is (top, left, bottom, right)."""

    kernel_size: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilation: tuple[int, ...] = (1, 1)
    deformable_groups: int = 1


def _moved(types: Sequence[Type], attrs: DeformableColumnsAttrs, taps: Dim, sizes: Sequence[Dim]) -> TensorType:
    """The type of what *taps* see, moved by the offset (input 1), of which there are *sizes* along the image."""
    data, offset = tensor_of(types[0], 4, "data"), tensor_of(types[1], 4, "offset")
    batch, channels, groups = data.shape[0], data.shape[1], attrs.deformable_groups
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise TypeInferenceError(f"{channels} channels cannot be divided into {groups} deformable groups")
    expected = (batch, times(taps, 2 * groups), *sizes)
    if not is_float(data.dtype) or any(differ(a, b) for a, b in zip(offset.shape, expected, strict=True)):
        raise TypeInferenceError(f"data must be floats and offset have the sizes {expected}, got {data} and {offset}")
    return TensorType((batch, channels, taps, *offset.shape[2:]), data.dtype)


def _columns_relation(types: Sequence[Type], attrs: DeformableColumnsAttrs) -> Type:
    sizes: list[Dim] = []
    for k, size in enumerate(tensor_of(types[0], 4, "data").shape[2:]):
        extent = (attrs.kernel_size[k] - 1) * attrs.dilation[k] + 1 - attrs.padding[k] - attrs.padding[k + 2]
        sizes.append(Any() if isinstance(size, Any) else (size - extent) // attrs.strides[k] + 1)
    return _moved(types, attrs, math.prod(attrs.kernel_size), sizes)


def _free_columns_relation(types: Sequence[Type], attrs: DeformableColumnsAttrs) -> Type:
    sizes = tensor_of(types[2], 1, "sizes")
    if differ(sizes.shape[0], 2) or not is_integer(sizes.dtype) or attrs.kernel_size:
        raise TypeInferenceError(f"the sizes of the kernel must be an input of 2 integers, got {sizes}")
    return _moved(types, attrs, Any(), (Any(), Any()))


register_op(
    "nn.deformable_columns",
    inputs=("data", "offset"),
    attrs=DeformableColumnsAttrs,
    rel=_columns_relation,
    doc="What each tap of a convolution sees that is moved by an offset of its own.",
    samples=(
        Sample([(1, 4, 6, 5), (1, 18, 6, 5)], {"kernel_size": (3, 3), "padding": (1, 1, 1, 1)}),
        Sample(
            [(2, 4, 7, 8), (2, 16, 3, 3)],
            {"kernel_size": (2, 2), "strides": (2, 2), "dilation": (1, 2), "deformable_groups": 2},
        ),
    ),
)


register_op(
    "dyn.deformable_columns",
    inputs=("data", "offset", "sizes"),
    attrs=DeformableColumnsAttrs,
    rel=_free_columns_relation,
    doc="What each moved tap of a convolution sees whose kernel's sizes are an input.",
    traits=Traits(OpKind.OTHER).static("nn.deformable_columns", {2: "kernel_size"}),
    samples=(
        Sample([(1, 4, 6, 5), (1, 18, 6, 5), np.array([3, 3], "int64")], {"kernel_size": (), "padding": (1, 1, 1, 1)}),
    ),
)


def deformable_columns(data: RelayExpr, offset: RelayExpr, attrs: DeformableColumnsAttrs) -> Call:
    """``T[N, C, H, W], T[N, 2 groups kh kw, OH, OW] -> T[N, C, kh kw, OH, OW]``. Source: ONNX DeformConv-19."""
    return make_call("nn.deformable_columns", [data, offset], attrs)


def deformable_columns_of(data: RelayExpr, offset: RelayExpr, sizes: RelayExpr, attrs: DeformableColumnsAttrs) -> Call:
    """As :func:`deformable_columns` of a kernel whose *sizes* are ``int[2]`` of the run; *attrs* have none."""
    return make_call("dyn.deformable_columns", [data, offset, sizes], attrs)
