"""Enlarging by factors: ``nn.upsampling``, ``nn.upsampling3d``. Source: ``relay/op/nn/upsampling.cc``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import ComputeOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.size_var import SizeExpr, size_of
from byoc.ir.traits import LayoutFlow, OpKind, Traits
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.window import arranged, axes_of, data_letters, spatial_letters, tensor_of
from byoc.relay.op.image.coordinates import MODES, Interpolation, resize_stages
from byoc.relay.op.image.resize import default_rounding
from byoc.te import Tensor

_METHODS = {
    "nearest_neighbor": "nearest_neighbor",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


@dataclass(frozen=True)
class UpSamplingAttrs(Attrs):
    """Attributes of ``nn.upsampling``."""

    scale_h: float = written(1.0)
    scale_w: float = written(1.0)
    layout: str = "NCHW"
    method: str = "nearest_neighbor"
    align_corners: bool = False

    @property
    def scales(self) -> tuple[float, ...]:
        """The factors in the order of the spatial axes."""
        return self.scale_h, self.scale_w

    @property
    def mode(self) -> str:
        """The coordinate transformation."""
        return "align_corners" if self.align_corners else "asymmetric"


@dataclass(frozen=True)
class UpSampling3DAttrs(Attrs):
    """Attributes of ``nn.upsampling3d``."""

    scale_d: float = written(1.0)
    scale_h: float = written(1.0)
    scale_w: float = written(1.0)
    layout: str = "NCDHW"
    method: str = "nearest_neighbor"
    coordinate_transformation_mode: str = "half_pixel"

    @property
    def scales(self) -> tuple[float, ...]:
        """The factors in the order of the spatial axes."""
        return self.scale_d, self.scale_h, self.scale_w

    @property
    def mode(self) -> str:
        """The coordinate transformation."""
        return self.coordinate_transformation_mode


Upsampling = UpSamplingAttrs | UpSampling3DAttrs


def _scaled(size: Dim, scale: float) -> Dim:
    if isinstance(size, SizeExpr):
        return size if scale == 1 else size_of("cast", "int32", size_of("round", size * float(scale)))
    if isinstance(size, Any):
        return size if scale == 1 else Any()
    out = round(size * scale)
    if out < 1:
        raise TypeInferenceError(f"a factor of {scale} leaves nothing of an axis of {size}")
    return out


def _relation(n: int) -> RelationOf[Upsampling]:
    def relation(types: Sequence[Type], attrs: Upsampling) -> TensorType:
        data, letters = tensor_of(types[0], n + 2, "data"), data_letters(n)
        dims = [data.shape[a] for a in axes_of(attrs.layout, letters, "data")]
        if attrs.method not in _METHODS:
            raise TypeInferenceError(f"method is one of {', '.join(_METHODS)}, got {attrs.method!r}")
        if attrs.mode not in MODES:
            raise TypeInferenceError(f"coordinate_transformation_mode is one of {', '.join(MODES)}, got {attrs.mode!r}")
        sizes = (_scaled(size, scale) for size, scale in zip(dims[2:], attrs.scales, strict=True))
        return TensorType(arranged((*dims[:2], *sizes), letters, attrs.layout), data.dtype)

    return relation


def _compute(n: int) -> ComputeOf[Upsampling, Tensor, TensorType]:
    def compute(attrs: Upsampling, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
        how = Interpolation(_METHODS[attrs.method], attrs.mode, default_rounding(attrs.mode, ""))
        every = [attrs.layout.index(letter) for letter in spatial_letters(n)]
        known = {a: size for a in every if isinstance(size := out_type.shape[a], int)}  # others keep their dynamic size
        axes = list(known)
        return [resize_stages(inputs[0], axes, list(known.values()), [(0.0, 1.0)] * len(axes), how, out_type.dtype)]

    return compute


Scale = float | RelayExpr


def _known_scales(*scales: Scale) -> list[float] | None:
    """The factors as numbers, or None where one is known only at run time."""
    numbers = [s.data.numpy().reshape(()).item() if isinstance(s, Constant) else s for s in scales]
    known = [float(s) for s in numbers if not isinstance(s, RelayExpr)]
    return known if len(known) == len(numbers) else None


def _as_inputs(scales: Sequence[Scale]) -> list[RelayExpr]:
    return [s if isinstance(s, RelayExpr) else constant(float(s), "float64") for s in scales]


def upsampling(
    data: RelayExpr,
    scale_h: Scale = 1,
    scale_w: Scale = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """Enlarge height and width, by factors that may be tensors. Source: ``relay.nn.upsampling``."""
    scales = _known_scales(scale_h, scale_w)
    if scales is None:
        attrs = UpSamplingAttrs(layout=layout, method=method, align_corners=align_corners)
        return make_call("dyn.nn.upsampling", [data, *_as_inputs((scale_h, scale_w))], attrs)
    return make_call("nn.upsampling", [data], UpSamplingAttrs(scales[0], scales[1], layout, method, align_corners))


def upsampling3d(
    data: RelayExpr,
    scale_d: Scale = 1,
    scale_h: Scale = 1,
    scale_w: Scale = 1,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """Enlarge depth, height and width, by factors that may be tensors. Source: ``relay.nn.upsampling3d``."""
    scales = _known_scales(scale_d, scale_h, scale_w)
    depth, height, width = scales or (1.0, 1.0, 1.0)
    attrs = UpSampling3DAttrs(depth, height, width, layout, method, coordinate_transformation_mode)
    if scales is None:
        return make_call("dyn.nn.upsampling3d", [data, *_as_inputs((scale_d, scale_h, scale_w))], attrs)
    return make_call("nn.upsampling3d", [data], attrs)


register_op(
    "nn.upsampling",
    inputs=("data",),
    rel=_relation(2),
    traits=Traits(OpKind.OTHER, any_layout=True, layout_flow=LayoutFlow.UPSAMPLED, takes_blocks=True),
    doc="Enlargement of height and width.",
    attrs=UpSamplingAttrs,
    pattern=OpPattern.INJECTIVE,
    compute=_compute(2),
    samples=[
        Sample([(1, 2, 3, 4)], {"scale_h": 2.0, "scale_w": 3.0}),
        Sample([(1, 3, 4, 2)], {"scale_h": 1.5, "scale_w": 2.0, "layout": "NHWC", "method": "bilinear"}),
        Sample([(1, 2, 3, 4)], {"scale_h": 2.0, "scale_w": 2.0, "method": "bilinear", "align_corners": True}),
    ],
).set_support_level(2)
register_op(
    "nn.upsampling3d",
    inputs=("data",),
    rel=_relation(3),
    traits=Traits(OpKind.OTHER, any_layout=True, layout_flow=LayoutFlow.UPSAMPLED, takes_blocks=True),
    doc="Enlargement of depth, height and width.",
    attrs=UpSampling3DAttrs,
    pattern=OpPattern.INJECTIVE,
    compute=_compute(3),
    samples=[
        Sample([(1, 2, 3, 2, 2)], {"scale_d": 2.0, "scale_h": 1.5}),
        Sample([(1, 1, 3, 2, 2)], {"scale_d": 2.0, "scale_w": 2.0, "method": "trilinear"}),
    ],
).set_support_level(2)
