"""``dyn.resize_taps``: which elements make those of a resized axis, by scales, sizes and a region that inputs hold.

The formulas are those by which constants are resized when a model is imported
(``byoc.runtime.kernels.images.interpolation``); what takes and weighs the elements are ``take`` and
``image.resample``. Source: ours; the attributes are those of ONNX Resize-19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.tuple_wrapper import TupleWrapper
from byoc.runtime.kernels.images.interpolation import COORDINATES, NEAREST, POLICIES


@dataclass(frozen=True)
class ResizeTapsAttrs(Attrs):
    """Attributes of ``dyn.resize_taps``: the *axes* that are resized, of which this is *axis*, and ONNX's of Resize.

    ``coordinates`` is coordinate_transformation_mode, ``nearest`` nearest_mode, ``cubic_a`` cubic_coeff_a, and
    ``policy`` keep_aspect_ratio_policy; ``check`` is what an error begins with.
    """

    axes: tuple[int, ...]
    axis: int
    mode: str = "nearest"
    coordinates: str = "asymmetric"
    nearest: str = "floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    policy: str = "stretch"
    check: str = ""


def _rel(types: Sequence[Type], attrs: ResizeTapsAttrs) -> Type:
    for k, name in enumerate(("shape", "roi", "scales", "sizes")):
        if tensor_arg(types, k, name).ndim != 1:
            raise TypeInferenceError(f"{name} must be a vector, got {types[k]}")
    allowed = [
        (attrs.mode, ("nearest", "linear", "cubic")),
        (attrs.coordinates, COORDINATES),
        (attrs.nearest, NEAREST),
        (attrs.policy, POLICIES),
    ]
    for value, known in allowed:
        if value not in known:
            raise TypeInferenceError(f"expected one of {', '.join(known)}, got {value!r}")
    if attrs.axis not in attrs.axes:
        raise TypeInferenceError(f"axis {attrs.axis} is none of those that are resized, {attrs.axes}")
    sizes = [Any(), Any()]
    return TupleType([TensorType(sizes, "int64"), TensorType(sizes, "float64"), TensorType(sizes[:1], "bool")])


_NONE = np.zeros(0, "float32")
_SHAPE = np.array([1, 4, 6], "int64")
register_op(
    "dyn.resize_taps",
    inputs=("shape", "roi", "scales", "sizes"),
    attrs=ResizeTapsAttrs,
    rel=_rel,
    traits=Traits(OpKind.OTHER, finds_sizes=True),
    doc="Positions, weights and what lies outside, for an axis that is resized as inputs say.",
    samples=(
        Sample([_SHAPE, _NONE, np.array([1.5, 2], "float32"), np.zeros(0, "int64")], {"axes": (1, 2), "axis": 2}),
        Sample(
            [_SHAPE, _NONE, _NONE, np.array([3, 4], "int64")],
            {"axes": (2, 1), "axis": 1, "mode": "cubic", "coordinates": "half_pixel", "antialias": True},
        ),
    ),
)


def resize_taps(shape: Operand, roi: Operand, scales: Operand, sizes: Operand, attrs: ResizeTapsAttrs) -> TupleWrapper:
    """``(int64[new, taps], f64[new, taps], bool[new])`` for one axis: positions, weights, what lies outside.

    Args:
        shape: of the data, ``int64[rank]``.
        roi: the region of ``tf_crop_and_resize``: all begins of the axes, then all ends; else empty.
        scales: one for each of the axes, or empty.
        sizes: likewise; one of both is given.
        attrs: which axis, and how.
    """
    return TupleWrapper(make_call("dyn.resize_taps", [as_expr(v) for v in (shape, roi, scales, sizes)], attrs), 3)
