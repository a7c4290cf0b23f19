"""Functions of each element, operations of two tensors, softmax, normalizations and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.contrib.onednn.algorithms import (
    BINARY,
    COMMUTATIVE,
    ELTWISE,
    FORWARD,
    REDUCTIONS,
    SOFTMAX,
    USE_GLOBAL,
    USE_SCALE,
    USE_SHIFT,
)
from byoc.contrib.onednn.building import (
    DST,
    MEAN,
    QUERY_DST,
    SCALE,
    SHIFT,
    SRC,
    SRC_1,
    VARIANCE,
    WEIGHTS,
    Builder,
    DnnlValue,
    is_reference,
)
from byoc.contrib.onednn.fusing import sizes_along
from byoc.contrib.onednn.library import Desc, Primitive
from byoc.contrib.onednn.steps import DnnlStep, builds
from byoc.contrib.onednn.windows import GLOBAL_POOLS, global_pool
from byoc.runtime.core.ndarray import numpy_dtype

OF_NOTHING = {"sum": 0.0, "prod": 1.0, "mean": np.nan, "max": -np.inf, "min": np.inf}  # reductions without elements


@builds(*ELTWISE)
def eltwise(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """A function of each element."""
    library, function = builder.library, ELTWISE[step.operator](step.attributes)
    alg, alpha, beta = function

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        return library.primitive(
            "eltwise_forward", library.engine, FORWARD, alg, desc, builder.any_of(desc), alpha, beta, attributes
        )

    return _one(builder, step.shape, *builder.best(make, data))


def _one(builder: Builder, shape: Sequence[int], primitive: Primitive, data: DnnlValue) -> DnnlValue:
    """The result of a *primitive* of one tensor, which has *shape*."""
    result = builder.temporary(primitive.asked(QUERY_DST, 0, shape, data.dtype))
    builder.add(primitive, {SRC: data, DST: result})
    return result


@builds("nn.prelu")
def prelu(builder: Builder, step: DnnlStep, data: DnnlValue, alpha: DnnlValue) -> DnnlValue:
    """``data``, what is below 0 times ``alpha: f32[C]`` along an axis."""
    library, ndim = builder.library, len(data.shape)
    axis = step.axis(ndim, 1)
    order = [0, axis, *(k for k in range(1, ndim) if k != axis)] if axis else [*range(ndim)]  # fast code is for axis 1
    data = data.permuted(order)
    slopes = builder.reshaped(alpha, [alpha.shape[0] if k == axis else 1 for k in order])

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        tensors = (desc, slopes.desc, builder.any_of(desc))
        return library.primitive("prelu_forward", library.engine, FORWARD, *tensors, attributes)

    primitive, source = builder.best(make, data)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, data.shape, data.dtype))
    builder.add(primitive, {SRC: source, WEIGHTS: slopes, DST: result})
    return result.permuted([order.index(k) for k in range(ndim)])


@builds(*BINARY, "nn.bias_add")
def binary(builder: Builder, step: DnnlStep, left: DnnlValue, right: DnnlValue) -> DnnlValue:
    """An operation of two tensors, one of which may broadcast, with functions of its result behind it."""
    library, ndim = builder.library, max(len(step.shape), 1)
    if step.operator == "nn.bias_add":
        axis = step.axis(ndim, 1)
        right = builder.reshaped(right, [right.shape[0] if k == axis else 1 for k in range(ndim)])
    left, right = (builder.reshaped(v, sizes_along(v.shape, ndim)) for v in (left, right))
    operator = "add" if step.operator == "nn.bias_add" else step.operator
    shape = step.shape or (1,)
    if left.shape != shape == right.shape and operator == "subtract":
        right, operator = eltwise(builder, DnnlStep("negative", {}, [shape], step.dtypes), right), "add"
    if left.shape != shape and BINARY[operator] in COMMUTATIVE:  # there is fast code where the second broadcasts
        left, right = right, left
    if left.shape == right.shape:
        right = builder.to(right, left.desc)
    elif right.shape != (1,) * ndim or left.shape != shape:
        right = builder.in_order(right)
        left = left if left.shape == shape else builder.in_order(left)
    attributes = library.attributes()
    for post in step.behind:
        attributes.add_eltwise(*ELTWISE[post.operator](post.attributes))
    target = builder.any_of(left.desc, shape) if left.shape == shape else library.desc(shape, left.dtype)
    tensors = (left.desc, right.desc, target, attributes.finished())
    primitive = library.primitive("binary", library.engine, BINARY[operator], *tensors)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, step.shape, left.dtype))
    builder.add(primitive, {SRC: left, SRC_1: right, DST: result})
    return result


@builds(*SOFTMAX)
def softmax(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """Along one axis, which is made the last one where oneDNN has fast code for that alone."""
    library, axis, last = builder.library, step.axis(len(data.shape), -1), len(data.shape) - 1

    def along(axis: int) -> Callable[[Desc], Primitive]:
        alg = SOFTMAX[step.operator]
        return lambda desc: library.primitive(
            "softmax_forward",
            library.engine,
            FORWARD,
            alg,
            desc,
            builder.any_of(desc),
            axis,
            library.attributes().finished(),
        )

    primitive, source = builder.best(along(axis), data)
    if axis == last or not is_reference(primitive):
        return _one(builder, step.shape, primitive, source)
    order = [*(k for k in range(last + 1) if k != axis), axis]
    turned = builder.in_order(data.permuted(order))
    result = _one(builder, turned.shape, along(last)(turned.desc), turned)
    return result.permuted([order.index(k) for k in range(last + 1)])


@builds("nn.layer_norm")
def layer_norm(builder: Builder, step: DnnlStep, data: DnnlValue, gamma: DnnlValue, beta: DnnlValue) -> DnnlValue:
    """Along the last axis; gamma and beta are ``f32[C]``."""
    library, ordered = builder.library, builder.in_order(data)
    flags, arguments = _affine(step, gamma, beta)
    tensors = (ordered.desc, ordered.desc, library.desc(data.shape[:-1], "float32"))
    attributes = library.attributes().finished()
    primitive = library.primitive(
        "layer_normalization_forward", library.engine, FORWARD, *tensors, float(step["epsilon"]), flags, attributes
    )
    result = builder.temporary(ordered.desc)
    builder.add(primitive, {SRC: ordered, DST: result, **arguments})
    return result


@builds("nn.batch_norm")
def batch_norm(
    builder: Builder,
    step: DnnlStep,
    data: DnnlValue,
    gamma: DnnlValue,
    beta: DnnlValue,
    mean: DnnlValue,
    variance: DnnlValue,
) -> list[DnnlValue]:
    """``data: f32[N, C, …]`` by the given mean and variance, which are results too."""
    library, (flags, arguments) = builder.library, _affine(step, gamma, beta)

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        epsilon = float(step["epsilon"])
        kind = "batch_normalization_forward"
        return library.primitive(
            kind, library.engine, FORWARD, desc, builder.any_of(desc), epsilon, flags | USE_GLOBAL, attributes
        )

    primitive, data = builder.best(make, data)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, step.shape, data.dtype))
    builder.add(primitive, {SRC: data, DST: result, MEAN: mean, VARIANCE: variance, **arguments})
    return [result, mean, variance]


def _affine(step: DnnlStep, gamma: DnnlValue, beta: DnnlValue) -> tuple[int, dict[int, DnnlValue]]:
    """The flags and arguments of a normalization's scale and shift."""
    scaled, shifted = step.get("scale", False), step.get("center", False)
    arguments = {**({SCALE: gamma} if scaled else {}), **({SHIFT: beta} if shifted else {})}
    return (USE_SCALE if scaled else 0) | (USE_SHIFT if shifted else 0), arguments


@builds(*REDUCTIONS)
def reduction(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """Over some of the axes, which are made the last ones where oneDNN has fast code for that alone.

    Means and maxima of whole images are pools, for which there is faster code.
    """
    ndim = len(data.shape)
    axes = step.reduced_axes(ndim)
    if 0 in data.shape:
        return builder.array(np.full(step.shape or (1,), OF_NOTHING[step.operator], numpy_dtype(data.dtype)))
    if all(data.shape[axis] == 1 for axis in axes):
        return builder.reshaped(data, step.shape)
    if step.operator in GLOBAL_POOLS and ndim in (3, 4, 5) and axes == tuple(range(2, ndim)):
        return builder.reshaped(global_pool(builder, data, GLOBAL_POOLS[step.operator]), step.shape)
    primitive, source = builder.best(lambda desc: _reducing(builder, step, desc, axes), data)
    if is_reference(primitive):
        order = [*(k for k in range(ndim) if k not in axes), *axes]
        source = builder.in_order(data.permuted(order))
        axes = tuple(range(ndim - len(axes), ndim))
        primitive = _reducing(builder, step, source.desc, axes)
    shape = [1 if k in axes else size for k, size in enumerate(source.shape)]
    return builder.reshaped(_one(builder, shape, primitive, source), step.shape)


def _reducing(builder: Builder, step: DnnlStep, desc: Desc, axes: Sequence[int]) -> Primitive:
    """The reduction over *axes*, whose result has them with one element."""
    library, alg = builder.library, REDUCTIONS[step.operator]
    target = builder.any_of(desc, [1 if k in axes else size for k, size in enumerate(desc.shape)])
    attributes = library.attributes().finished()
    return library.primitive("reduction", library.engine, alg, desc, target, 0.0, 0.0, attributes)
