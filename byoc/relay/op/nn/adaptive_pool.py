"""Adaptive and global pools: a given number of windows over each axis. Source: ``relay.nn.adaptive_avg_pool2d``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import ComputeOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import arranged, axes_of, data_letters, per_axis, tensor_of
from byoc.relay.op.nn.pool_compute import adaptive_stages
from byoc.te import Tensor

Ints = int | Sequence[int]


@dataclass(frozen=True)
class AdaptivePoolAttrs(Attrs):
    """Attributes of adaptive pools; an empty ``output_size`` keeps the sizes."""

    output_size: tuple[int, ...] = ()
    layout: str = ""
    out_layout: str = ""


@dataclass(frozen=True)
class AdaptivePool1DAttrs(AdaptivePoolAttrs):
    """Attributes of adaptive pools over one axis."""

    layout: str = "NCW"


@dataclass(frozen=True)
class AdaptivePool2DAttrs(AdaptivePoolAttrs):
    """Attributes of adaptive pools over two axes."""

    layout: str = "NCHW"


@dataclass(frozen=True)
class AdaptivePool3DAttrs(AdaptivePoolAttrs):
    """Attributes of adaptive pools over three axes."""

    layout: str = "NCDHW"


_ATTRS = {1: AdaptivePool1DAttrs, 2: AdaptivePool2DAttrs, 3: AdaptivePool3DAttrs}


@dataclass(frozen=True)
class GlobalPool2DAttrs(Attrs):
    """Attributes of global pools."""

    layout: str = "NCHW"
    out_layout: str = ""


def _relation(n: int) -> RelationOf[AdaptivePoolAttrs | GlobalPool2DAttrs]:
    def relation(types: Sequence[Type], attrs: AdaptivePoolAttrs | GlobalPool2DAttrs) -> TensorType:
        data, letters = tensor_of(types[0], n + 2, "data"), data_letters(n)
        dims = [data.shape[a] for a in axes_of(attrs.layout, letters, "data")]
        axes_of(attrs.out_layout or attrs.layout, letters, "output")
        wanted = attrs.output_size if isinstance(attrs, AdaptivePoolAttrs) else (1,) * n
        sizes: Sequence[Dim] = per_axis(wanted, n, "output_size") if wanted else tuple(dims[2:])
        if any(isinstance(size, int) and size < 1 for size in sizes):
            raise TypeInferenceError(f"output_size must be positive, got {sizes}")
        return TensorType(arranged((*dims[:2], *sizes), letters, attrs.out_layout or attrs.layout), data.dtype)

    return relation


def _compute(mean: bool) -> ComputeOf[AdaptivePoolAttrs | GlobalPool2DAttrs, Tensor, TensorType]:
    def compute(
        attrs: AdaptivePoolAttrs | GlobalPool2DAttrs, inputs: Sequence[Tensor], out_type: TensorType
    ) -> list[Tensor]:
        return [adaptive_stages(inputs[0], attrs.layout, attrs.out_layout, mean, out_type)]

    return compute


def _operations(attrs: Attrs | None, types: Sequence[Type], out_type: Type) -> int:
    return math.prod(d if isinstance(d, int) else 1 for d in tensor_arg(types, 0).shape)


def _adaptive(kind: str, n: int, data: RelayExpr, output_size: Ints | None, layout: str, out_layout: str) -> Call:
    size = per_axis(output_size, n, "output_size") if output_size else ()
    return make_call(f"nn.adaptive_{kind}_pool{n}d", [data], _ATTRS[n](size, layout, out_layout))


def adaptive_avg_pool1d(
    data: RelayExpr, output_size: Ints | None = None, layout: str = "NCW", out_layout: str = ""
) -> Call:
    """The means of *output_size* windows. Source: ``relay.nn.adaptive_avg_pool1d``."""
    return _adaptive("avg", 1, data, output_size, layout, out_layout)


def adaptive_max_pool1d(
    data: RelayExpr, output_size: Ints | None = None, layout: str = "NCW", out_layout: str = ""
) -> Call:
    """The greatest elements of *output_size* windows. Source: ``relay.nn.adaptive_max_pool1d``."""
    return _adaptive("max", 1, data, output_size, layout, out_layout)


def adaptive_avg_pool2d(
    data: RelayExpr, output_size: Ints | None = None, layout: str = "NCHW", out_layout: str = ""
) -> Call:
    """The means of *output_size* windows. Source: ``relay.nn.adaptive_avg_pool2d``."""
    return _adaptive("avg", 2, data, output_size, layout, out_layout)


def adaptive_max_pool2d(
    data: RelayExpr, output_size: Ints | None = None, layout: str = "NCHW", out_layout: str = ""
) -> Call:
    """The greatest elements of *output_size* windows. Source: ``relay.nn.adaptive_max_pool2d``."""
    return _adaptive("max", 2, data, output_size, layout, out_layout)


def adaptive_avg_pool3d(
    data: RelayExpr, output_size: Ints | None = None, layout: str = "NCDHW", out_layout: str = ""
) -> Call:
    """The means of *output_size* windows. Source: ``relay.nn.adaptive_avg_pool3d``."""
    return _adaptive("avg", 3, data, output_size, layout, out_layout)


def adaptive_max_pool3d(
    data: RelayExpr, output_size: Ints | None = None, layout: str = "NCDHW", out_layout: str = ""
) -> Call:
    """The greatest elements of *output_size* windows. Source: ``relay.nn.adaptive_max_pool3d``."""
    return _adaptive("max", 3, data, output_size, layout, out_layout)


def global_avg_pool1d(data: RelayExpr, layout: str = "NCW", out_layout: str = "") -> Call:
    """The mean of each channel. Source: ``relay.nn.global_avg_pool1d``."""
    return _adaptive("avg", 1, data, 1, layout, out_layout)


def global_max_pool1d(data: RelayExpr, layout: str = "NCW", out_layout: str = "") -> Call:
    """The greatest element of each channel. Source: ``relay.nn.global_max_pool1d``."""
    return _adaptive("max", 1, data, 1, layout, out_layout)


def global_avg_pool2d(data: RelayExpr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """The mean of each channel. Source: ``relay.nn.global_avg_pool2d``."""
    return make_call("nn.global_avg_pool2d", [data], GlobalPool2DAttrs(layout, out_layout))


def global_max_pool2d(data: RelayExpr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """The greatest element of each channel. Source: ``relay.nn.global_max_pool2d``."""
    return make_call("nn.global_max_pool2d", [data], GlobalPool2DAttrs(layout, out_layout))


def global_avg_pool3d(data: RelayExpr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """The mean of each channel. Source: ``relay.nn.global_avg_pool3d``."""
    return _adaptive("avg", 3, data, 1, layout, out_layout)


def global_max_pool3d(data: RelayExpr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """The greatest element of each channel. Source: ``relay.nn.global_max_pool3d``."""
    return _adaptive("max", 3, data, 1, layout, out_layout)


_SAMPLES = {
    1: [Sample([(2, 3, 7)], {"output_size": (3,), "layout": "NCW"})],
    2: [
        Sample([(2, 3, 7, 8)], {"output_size": (3, 4), "layout": "NCHW"}),
        Sample([(1, 5, 6, 3)], {"output_size": (1, 1), "layout": "NHWC"}),
        Sample([(1, 2, 3, 3)], {"layout": "NCHW"}),
    ],
    3: [Sample([(1, 2, 5, 4, 3)], {"output_size": (2, 1, 2), "layout": "NCDHW"})],
}
_DOCS = {"avg": "The mean", "max": "The greatest element"}
_TRAITS = {
    "avg": Traits(OpKind.WINDOW, precision=Conversion.NEVER, takes_blocks=True),
    "max": Traits(OpKind.WINDOW, carries=(0,), chooses=True, precision=Conversion.FOLLOW, takes_blocks=True),
}

for _kind, _doc in _DOCS.items():
    for _n in (1, 2, 3):
        register_op(
            f"nn.adaptive_{_kind}_pool{_n}d",
            inputs=("data",),
            rel=_relation(_n),
            doc=f"{_doc} of a given number of windows over {_n} axes.",
            attrs=_ATTRS[_n],
            pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
            traits=_TRAITS[_kind],
            compute=_compute(_kind == "avg"),
            operations=_operations,
            samples=_SAMPLES[_n],
        )
    register_op(
        f"nn.global_{_kind}_pool2d",
        inputs=("data",),
        rel=_relation(2),
        doc=f"{_doc} of each channel.",
        attrs=GlobalPool2DAttrs,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        traits=replace(_TRAITS[_kind], any_layout=True),
        compute=_compute(_kind == "avg"),
        operations=_operations,
        samples=[Sample([(2, 3, 5, 4)]), Sample([(1, 5, 4, 3)], {"layout": "NHWC", "out_layout": "NCHW"})],
    ).set_support_level(2)
