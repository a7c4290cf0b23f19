"""Sliding pools: ``nn.max_pool1d`` to ``nn.avg_pool3d``. Source: ``relay.nn.max_pool2d``, ``relay.nn.avg_pool2d``.

With ``ceil_mode`` a last window may hang over the end; it is dropped where it would see padding alone, and the count of
an average over padding ends with the padding, as ONNX and PyTorch have it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import CountOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.relay.expr import Call
from byoc.relay.op.attributes.pool import (
    AvgPool1DAttrs,
    AvgPool2DAttrs,
    AvgPool3DAttrs,
    AvgPoolAttrs,
    MaxPool1DAttrs,
    MaxPool2DAttrs,
    MaxPool3DAttrs,
    MaxPoolAttrs,
)
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.window import (
    arranged,
    axes_of,
    data_letters,
    pad_pairs,
    per_axis,
    spatial_letters,
    tensor_of,
    window_extent,
)
from byoc.relay.op.nn.pool_compute import avg_stages, max_stages
from byoc.te import Tensor


def _relation(n: int) -> RelationOf[MaxPoolAttrs]:
    def relation(types: Sequence[Type], attrs: MaxPoolAttrs) -> TensorType:
        data, letters = tensor_of(types[0], n + 2, "data"), data_letters(n)
        dims = [data.shape[a] for a in axes_of(attrs.layout, letters, "data")]
        axes_of(attrs.out_layout or attrs.layout, letters, "output")
        kernel, pads = per_axis(attrs.pool_size, n, "pool_size"), pad_pairs(attrs.padding, n)
        for k, d, (before, after) in zip(kernel, per_axis(attrs.dilation, n, "dilation"), pads, strict=True):
            if max(before, after) > d * (k - 1) and not getattr(attrs, "count_include_pad", True):
                raise TypeInferenceError(
                    f"padding {before} and {after} must be less than the window of {d * (k - 1) + 1}"
                )
        steps = zip(
            dims[2:],
            kernel,
            per_axis(attrs.strides, n, "strides"),
            per_axis(attrs.dilation, n, "dilation"),
            pads,
            strict=True,
        )
        out = (*dims[:2], *(window_extent(*step, attrs.ceil_mode) for step in steps))
        return TensorType(arranged(out, letters, attrs.out_layout or attrs.layout), data.dtype)

    return relation


def _max_compute(attrs: MaxPoolAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    return [max_stages(inputs[0], attrs, out_type)]


def _avg_compute(attrs: AvgPoolAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    return [avg_stages(inputs[0], attrs, attrs.count_include_pad, out_type)]


def _operations(n: int) -> CountOf[MaxPoolAttrs, Type]:
    def operations(attrs: MaxPoolAttrs, types: Sequence[Type], out_type: Type) -> int:
        outputs = math.prod(d if isinstance(d, int) else 1 for d in tensor_types(out_type)[0].shape)
        data = tensor_types(types[0])[0].shape
        sizes = [data[attrs.layout.index(letter)] for letter in spatial_letters(n)]
        windows = per_axis(attrs.pool_size, n, "pool_size")  # which may be larger than the data
        return outputs * math.prod(min(k, d) if isinstance(d, int) else k for k, d in zip(windows, sizes, strict=True))

    return operations


@dataclass(eq=False, repr=False)
class MaxPool1DArguments(WindowArguments):
    """Arguments of ``max_pool1d``."""

    AXES = 1
    data: RelayExpr
    pool_size: Ints = (1,)
    strides: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    layout: str = "NCW"
    out_layout: str = ""
    ceil_mode: bool = False


@takes_fields_of(MaxPool1DArguments)
def max_pool1d(given: MaxPool1DArguments) -> Call:
    """The greatest element of each 1-d window. Source: ``relay.nn.max_pool1d``."""
    return make_call("nn.max_pool1d", [given.data], given.attrs(MaxPool1DAttrs))


@dataclass(eq=False, repr=False)
class AvgPool1DArguments(MaxPool1DArguments):
    """Arguments of ``avg_pool1d``: those of ``max_pool1d``, and whether padding is counted."""

    count_include_pad: bool = False


@takes_fields_of(AvgPool1DArguments)
def avg_pool1d(given: AvgPool1DArguments) -> Call:
    """The mean of each 1-d window. Source: ``relay.nn.avg_pool1d``."""
    return make_call("nn.avg_pool1d", [given.data], given.attrs(AvgPool1DAttrs))


@dataclass(eq=False, repr=False)
class MaxPool2DArguments(MaxPool1DArguments):
    """Arguments of ``max_pool2d``."""

    AXES = 2
    pool_size: Ints = (1, 1)
    strides: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding: Ints = (0, 0)
    layout: str = "NCHW"


@takes_fields_of(MaxPool2DArguments)
def max_pool2d(given: MaxPool2DArguments) -> Call:
    """The greatest element of each 2-d window. Source: ``relay.nn.max_pool2d``."""
    return make_call("nn.max_pool2d", [given.data], given.attrs(MaxPool2DAttrs))


@dataclass(eq=False, repr=False)
class AvgPool2DArguments(MaxPool2DArguments):
    """Arguments of ``avg_pool2d``: those of ``max_pool2d``, and whether padding is counted."""

    count_include_pad: bool = False


@takes_fields_of(AvgPool2DArguments)
def avg_pool2d(given: AvgPool2DArguments) -> Call:
    """The mean of each 2-d window. Source: ``relay.nn.avg_pool2d``."""
    return make_call("nn.avg_pool2d", [given.data], given.attrs(AvgPool2DAttrs))


@dataclass(eq=False, repr=False)
class MaxPool3DArguments(MaxPool1DArguments):
    """Arguments of ``max_pool3d``."""

    AXES = 3
    pool_size: Ints = (1, 1, 1)
    strides: Ints = (1, 1, 1)
    dilation: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    layout: str = "NCDHW"


@takes_fields_of(MaxPool3DArguments)
def max_pool3d(given: MaxPool3DArguments) -> Call:
    """The greatest element of each 3-d window. Source: ``relay.nn.max_pool3d``."""
    return make_call("nn.max_pool3d", [given.data], given.attrs(MaxPool3DAttrs))


@dataclass(eq=False, repr=False)
class AvgPool3DArguments(MaxPool3DArguments):
    """Arguments of ``avg_pool3d``: those of ``max_pool3d``, and whether padding is counted."""

    count_include_pad: bool = False


@takes_fields_of(AvgPool3DArguments)
def avg_pool3d(given: AvgPool3DArguments) -> Call:
    """The mean of each 3-d window. Source: ``relay.nn.avg_pool3d``."""
    return make_call("nn.avg_pool3d", [given.data], given.attrs(AvgPool3DAttrs))


_COMMON: dict[int, list[tuple[tuple[int, ...], dict[str, object]]]] = {
    1: [((2, 3, 11), {"pool_size": (3,), "strides": (2,), "padding": (1, 0), "layout": "NCW"})],
    2: [
        ((2, 3, 8, 7), {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0, 0, 1), "layout": "NCHW"}),
        (
            (1, 2, 8, 9),
            {"pool_size": (3, 3), "strides": (2, 3), "padding": (1, 1, 1, 1), "ceil_mode": True, "layout": "NCHW"},
        ),
        ((1, 9, 8, 3), {"pool_size": (2, 3), "dilation": (2, 2), "padding": (1,), "layout": "NHWC"}),
        ((1, 2, 6, 6), {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW", "out_layout": "NHWC"}),
        ((1, 3, 6, 5), {"pool_size": (3, 3), "padding": (1, 1), "layout": "NCHW"}),  # what others call SAME
    ],
    3: [((1, 2, 5, 6, 4), {"pool_size": (2, 3, 2), "strides": (2, 1, 2), "padding": (0, 1, 1), "layout": "NCDHW"})],
}


def _samples(n: int) -> list[Sample]:
    return [Sample([shape], attrs) for shape, attrs in _COMMON[n]]


def _max_samples(n: int) -> list[Sample]:
    """The common ones, and one whose first and last windows lie wholly in the padding."""
    attrs: dict[str, object] = {
        "pool_size": (2,) * n,
        "strides": (2,) * n,
        "padding": (2,) * n,
        "layout": data_letters(n),
    }
    return [*_samples(n), Sample([(1, 2, *(4,) * n)], attrs)]


def _avg_samples(n: int) -> list[Sample]:
    counted = [Sample([shape], {**attrs, "count_include_pad": True}) for shape, attrs in _COMMON[n]]
    return [*_samples(n), *counted]


_POOL = Traits(OpKind.WINDOW, precision=Conversion.FOLLOW, any_layout=True, takes_blocks=True)
_MAX_ATTRS = {1: MaxPool1DAttrs, 2: MaxPool2DAttrs, 3: MaxPool3DAttrs}
_AVG_ATTRS = {1: AvgPool1DAttrs, 2: AvgPool2DAttrs, 3: AvgPool3DAttrs}

for _n in (1, 2, 3):
    register_op(
        f"nn.max_pool{_n}d",
        inputs=("data",),
        rel=_relation(_n),
        doc=f"The greatest element of each window over {_n} axes.",
        attrs=_MAX_ATTRS[_n],
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        traits=replace(_POOL, carries=(0,), chooses=True),
        compute=_max_compute,
        operations=_operations(_n),
        samples=_max_samples(_n),
    ).set_support_level(2)
    register_op(
        f"nn.avg_pool{_n}d",
        inputs=("data",),
        rel=_relation(_n),
        doc=f"The mean of each window over {_n} axes.",
        attrs=_AVG_ATTRS[_n],
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        traits=_POOL,
        compute=_avg_compute,
        operations=_operations(_n),
        samples=_avg_samples(_n),
    ).set_support_level(2)
