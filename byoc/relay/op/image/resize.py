"""``image.resize1d``, ``image.resize2d``, ``image.resize3d``. Source: ``relay/op/image/resize.cc``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import ComputeOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import Conversion, LayoutFlow, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call, Constant, check_expr, constant
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import constant_ints, make_call
from byoc.relay.op.core.window import arranged, axes_of, data_letters, spatial_letters, tensor_of
from byoc.relay.op.image.coordinates import METHODS, MODES, ROUNDINGS, Interpolation, resize_stages
from byoc.te import Tensor


@dataclass(frozen=True)
class ResizeAttrs(Attrs):
    """Attributes of resizing; ``roi`` holds all starts and then all ends, as parts of the image."""

    size: tuple[int, ...]
    roi: tuple[float, ...] = ()
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = "round"  # as in Relay's class; its functions have ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str = ""


@dataclass(frozen=True)
class Resize1DAttrs(ResizeAttrs):
    """Attributes of ``image.resize1d``."""

    layout: str = "NCW"


@dataclass(frozen=True)
class Resize2DAttrs(ResizeAttrs):
    """Attributes of ``image.resize2d``."""


@dataclass(frozen=True)
class Resize3DAttrs(ResizeAttrs):
    """Attributes of ``image.resize3d``."""

    layout: str = "NCDHW"


_ATTRS = {1: Resize1DAttrs, 2: Resize2DAttrs, 3: Resize3DAttrs}


def default_rounding(mode: str, rounding: str) -> str:
    """*rounding*, or Relay's choice where it is empty: to the nearest for align_corners, else down."""
    return rounding or ("round" if mode == "align_corners" else "floor")


def _one_of(value: str, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise TypeInferenceError(f"{what} is one of {', '.join(known)}, got {value!r}")


def _relation(n: int) -> RelationOf[ResizeAttrs]:
    def relation(types: Sequence[Type], attrs: ResizeAttrs) -> TensorType:
        data, letters = tensor_of(types[0], n + 2, "data"), data_letters(n)
        dims = [data.shape[a] for a in axes_of(attrs.layout, letters, "data")]
        _one_of(attrs.method, METHODS, "method")
        _one_of(attrs.coordinate_transformation_mode, tuple(MODES), "coordinate_transformation_mode")
        _one_of(
            default_rounding(attrs.coordinate_transformation_mode, attrs.rounding_method),
            tuple(ROUNDINGS),
            "rounding_method",
        )
        if len(attrs.size) != n or any(isinstance(size, int) and size < 1 for size in attrs.size):
            raise TypeInferenceError(f"size must be {n} positive numbers, got {attrs.size}")
        if attrs.roi and len(attrs.roi) != 2 * n:
            raise TypeInferenceError(f"roi must be {2 * n} numbers, got {attrs.roi}")
        return TensorType(arranged((*dims[:2], *attrs.size), letters, attrs.layout), attrs.out_dtype or data.dtype)

    return relation


def _compute(n: int) -> ComputeOf[ResizeAttrs, Tensor, TensorType]:
    def compute(attrs: ResizeAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
        mode = attrs.coordinate_transformation_mode
        how = Interpolation(
            attrs.method,
            mode,
            default_rounding(mode, attrs.rounding_method),
            attrs.cubic_alpha,
            bool(attrs.cubic_exclude),
            attrs.extrapolation_value if mode == "tf_crop_and_resize" else None,
        )
        roi = attrs.roi or (0.0,) * n + (1.0,) * n
        axes = [attrs.layout.index(letter) for letter in spatial_letters(n)]
        regions = [(roi[k], roi[n + k]) for k in range(n)]
        return [resize_stages(inputs[0], axes, attrs.size, regions, how, out_type.dtype)]

    return compute


def _has_numbers(dtypes: Sequence[str], attrs: ResizeAttrs) -> bool:
    """False where the size is a variable (``te.var``), of which types alone are known."""
    return all(isinstance(size, int) for size in attrs.size)


@dataclass(eq=False, repr=False)
class Resize1DArguments(Arguments):
    """Arguments of ``resize1d``."""

    data: RelayExpr
    size: int | Sequence[int] | RelayExpr
    roi: Sequence[float] | RelayExpr | None = None
    layout: str = "NCW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str | None = None


@dataclass(eq=False, repr=False)
class Resize2DArguments(Resize1DArguments):
    """Arguments of ``resize2d``."""

    layout: str = "NCHW"


@dataclass(eq=False, repr=False)
class Resize3DArguments(Resize1DArguments):
    """Arguments of ``resize3d``."""

    layout: str = "NCDHW"


def _make(n: int, given: Resize1DArguments) -> Call:
    numbers, region = constant_ints(given.size), _known_region(given.roi, n)
    if (numbers is None or region is None) and n != 2:
        raise TypeInferenceError(f"image.resize{n}d: size and roi must be known when compiling, got an expression")
    sizes = numbers * n if numbers is not None and len(numbers) == 1 else numbers
    attrs = given.attrs(_ATTRS[n], size=sizes or (), roi=region or (), out_dtype=given.out_dtype or "")
    if sizes is not None and region is not None:
        return make_call(f"image.resize{n}d", [given.data], attrs)
    size = check_expr(given.size, "a size") if sizes is None else constant(list(sizes), "int64")
    part = check_expr(given.roi, "a region") if region is None else constant(list(region), "float32")
    return make_call("dyn.image.resize2d", [given.data, size, part], attrs)


def _known_region(roi: Sequence[float] | RelayExpr | None, n: int) -> tuple[float, ...] | None:
    """The region as numbers; None for an expression that is not known when compiling."""
    if roi is None:
        return (0.0,) * (2 * n)
    if isinstance(roi, Constant):
        return tuple(float(r) for r in roi.data.numpy().reshape(-1))
    return None if isinstance(roi, RelayExpr) else tuple(float(r) for r in roi)


@takes_fields_of(Resize1DArguments)
def resize1d(given: Resize1DArguments) -> Call:
    """Resize 1 spatial axis. Source: ``relay.image.resize1d``.

    Raises UserError for a size that is not known.
    """
    return _make(1, given)


@takes_fields_of(Resize2DArguments)
def resize2d(given: Resize2DArguments) -> Call:
    """Resize 2 spatial axes; *size* and *roi* may be tensors. Source: ``relay.image.resize2d``."""
    return _make(2, given)


@takes_fields_of(Resize3DArguments)
def resize3d(given: Resize3DArguments) -> Call:
    """Resize 3 spatial axes. Source: ``relay.image.resize3d``.

    Raises UserError for a size that is not known.
    """
    return _make(3, given)


_SAMPLES = {
    1: [
        Sample([(1, 2, 5)], {"size": (8,), "layout": "NCW"}),
        Sample([(1, 2, 6)], {"size": (1,), "layout": "NCW", "coordinate_transformation_mode": "pytorch_half_pixel"}),
        Sample(
            [(1, 2, 6)],
            {
                "size": (4,),
                "layout": "NCW",
                "roi": (0.2, 1.3),
                "extrapolation_value": 7.0,
                "coordinate_transformation_mode": "tf_crop_and_resize",
            },
        ),
    ],
    2: [
        Sample([(2, 3, 4, 5)], {"size": (8, 7)}),
        Sample([(1, 2, 6, 7)], {"size": (3, 4), "method": "cubic"}),
        Sample([(1, 2, 4, 5)], {"size": (7, 9), "method": "cubic", "cubic_exclude": 1, "cubic_alpha": -0.75}),
        Sample([(1, 5, 4, 2)], {"size": (9, 8), "layout": "NHWC", "coordinate_transformation_mode": "align_corners"}),
        Sample(
            [(1, 2, 4, 5)],
            {"size": (8, 10), "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        ),
        Sample([(1, 2, 4, 5)], {"size": (6, 3), "method": "nearest_neighbor", "rounding_method": "round_prefer_floor"}),
        Sample(
            [(1, 1, 4, 5)],
            {"size": (6, 3), "method": "nearest_neighbor", "rounding_method": "ceil"},
            dtype="int8",
            low=-99,
            high=99,
        ),
        Sample([(1, 2, 4, 5)], {"size": (7, 9), "method": "cubic"}, dtype="uint8", low=0, high=255),
        Sample([(1, 2, 4, 5)], {"size": (7, 3)}, dtype="int32", low=-(2**31), high=2**31 - 1),
        Sample(
            [(1, 2, 4, 5)],
            {"size": (7, 3), "method": "nearest_neighbor", "coordinate_transformation_mode": "tf_half_pixel_for_nn"},
        ),
    ],
    3: [Sample([(1, 2, 3, 4, 3)], {"size": (5, 6, 2), "layout": "NCDHW"})],
}

for _n in (1, 2, 3):
    register_op(
        f"image.resize{_n}d",
        inputs=("data",),
        rel=_relation(_n),
        doc=f"Resizing of {_n} spatial axes.",
        attrs=_ATTRS[_n],
        pattern=OpPattern.INJECTIVE,
        traits=Traits(
            OpKind.OTHER,
            precision=Conversion.FOLLOW,
            any_layout=True,
            layout_flow=LayoutFlow.RESIZED,
            takes_blocks=True,
        ),
        compute=Implementation(_compute(_n), code_for=_has_numbers),
        samples=_SAMPLES[_n],
    ).set_support_level(5)
