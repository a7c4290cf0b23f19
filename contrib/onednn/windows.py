"""Pools, response normalization and resizing."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.contrib.onednn.algorithms import (
    AVG_POOL,
    AVG_POOL_WITH_PADDING,
    FORWARD,
    LINEAR,
    LRN,
    MAX_POOL,
    NEAREST,
)
from byoc.contrib.onednn.building import DST, QUERY_DST, SRC, Builder, DnnlValue
from byoc.contrib.onednn.library import Desc, Primitive
from byoc.contrib.onednn.steps import DnnlStep, builds
from byoc.contrib.window import CANONICAL, pads_of, per_axis

Pads = Sequence[tuple[int, int]]


def pool(
    builder: Builder, alg: int, data: DnnlValue, shape: Sequence[int], window: Sequence[Sequence[int]], pads: Pads
) -> DnnlValue:
    """``data: f32[N, C, …]`` pooled to *shape*, by windows of kernel, strides and dilation, each for every axis."""
    library = builder.library
    kernel, strides, dilation = window
    before, after = [b for b, _ in pads], [a for _, a in pads]
    sizes = (strides, kernel, [d - 1 for d in dilation], before, after)

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        target = builder.any_of(desc, shape)
        return library.primitive("pooling_forward", library.engine, FORWARD, alg, desc, target, *sizes, attributes)

    primitive, data = builder.best(make, data)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, shape, data.dtype))
    builder.add(primitive, {SRC: data, DST: result})
    return result


# operators that are a pool of a whole image, where they are over its axes
GLOBAL_POOLS = {"mean": AVG_POOL, "nn.global_avg_pool2d": AVG_POOL, "max": MAX_POOL, "nn.global_max_pool2d": MAX_POOL}


def global_pool(builder: Builder, data: DnnlValue, alg: int) -> DnnlValue:
    """The mean or the maximum of each channel's image: ``f32[N, C, …] -> f32[N, C, 1, …]``."""
    image = list(data.shape[2:])
    ones = [1] * len(image)
    return pool(builder, alg, data, [*data.shape[:2], *ones], (image, ones, ones), [(0, 0)] * len(image))


def _turned(step: DnnlStep, data: DnnlValue) -> tuple[DnnlValue, list[int], list[int]]:
    """*data* with channels before the image, the result's axes in that order, and the order that undoes it."""
    letters = CANONICAL[len(data.shape) - 2]
    layout = step["layout"]
    order = [step.get("out_layout", layout).index(letter) for letter in letters]
    source = data.permuted([layout.index(letter) for letter in letters])
    return source, [step.shape[k] for k in order], [order.index(k) for k in range(len(order))]


@builds(*(f"nn.{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)))
def pools(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """In any plain layout; the padding behind is as wide as the last window reaches."""
    source, shape, back = _turned(step, data)
    n = len(shape) - 2
    kernel, strides, dilation = (per_axis(step[name], n) for name in ("pool_size", "strides", "dilation"))
    first = [before for before, _ in pads_of(step["padding"], n)]
    spans = [
        (size - 1) * s + (k - 1) * d + 1 for size, s, k, d in zip(shape[2:], strides, kernel, dilation, strict=True)
    ]
    pads = [(b, span - b - size) for b, span, size in zip(first, spans, source.shape[2:], strict=True)]
    averages = AVG_POOL_WITH_PADDING if step.get("count_include_pad", False) else AVG_POOL
    alg = MAX_POOL if "max" in step.operator else averages
    return pool(builder, alg, source, shape, (kernel, strides, dilation), pads).permuted(back)


@builds("nn.global_avg_pool2d", "nn.global_max_pool2d")
def global_pools(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """The mean or the maximum of each image."""
    source, _, back = _turned(step, data)
    return global_pool(builder, source, GLOBAL_POOLS[step.operator]).permuted(back)


@builds("nn.lrn")
def lrn(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """Across channels: ``data: f32[N, C, H, W]``."""
    library, size = builder.library, int(step["size"])
    alpha, beta, k = (float(step[name]) for name in ("alpha", "beta", "bias"))

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        numbers = (size, alpha, beta, k)
        return library.primitive(
            "lrn_forward", library.engine, FORWARD, LRN, desc, builder.any_of(desc), *numbers, attributes
        )

    primitive, data = builder.best(make, data)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, step.shape, data.dtype))
    builder.add(primitive, {SRC: data, DST: result})
    return result


@builds("image.resize2d", "nn.upsampling")
def resize(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """By the nearest element, or linearly between the centres of elements."""
    library = builder.library
    source, shape, back = _turned(step, data)
    alg = NEAREST if "nearest" in step["method"] else LINEAR

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        target = builder.any_of(desc, shape)
        return library.primitive("resampling_forward", library.engine, FORWARD, alg, None, desc, target, attributes)

    primitive, source = builder.best(make, source)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, shape, source.dtype))
    builder.add(primitive, {SRC: source, DST: result})
    return result.permuted(back)
