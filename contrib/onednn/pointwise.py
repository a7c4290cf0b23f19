"""Functions of each element, operations of two tensors, softmax, normalizations and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from byoc.contrib.onednn.algorithms import (
    BINARY,
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
    Builder,
    Value,
)
from byoc.contrib.onednn.fusing import sizes_along
from byoc.contrib.onednn.library import Desc, Primitive
from byoc.contrib.onednn.steps import Step, builds
from byoc.contrib.onednn.windows import global_pool


def axis_of(step: Step, ndim: int, default: int, name: str = "axis") -> int:
    """The attribute *name* as an axis, not below 0."""
    axis = step.attributes.get(name, default)
    return int(default if axis is None else axis) % max(ndim, 1)


@builds(*ELTWISE)
def eltwise(builder: Builder, step: Step, data: Value) -> Value:
    """A function of each element."""
    library, function = builder.library, ELTWISE[step.operator](step.attributes)
    alg, alpha, beta = function

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        return library.primitive(
            "eltwise_forward", library.engine, FORWARD, alg, desc, builder.any_of(desc), alpha, beta, attributes
        )

    return _one(builder, step, *builder.best(make, data))


def _one(builder: Builder, step: Step, primitive: Primitive, data: Value) -> Value:
    """The result of a *primitive* of one tensor."""
    result = builder.temporary(primitive.asked(QUERY_DST, 0, step.shape, data.dtype))
    builder.add(primitive, {SRC: data, DST: result})
    return result


@builds(*BINARY, "nn.bias_add")
def binary(builder: Builder, step: Step, left: Value, right: Value) -> Value:
    """An operation of two tensors, one of which may broadcast, with functions of its result behind it."""
    library, ndim = builder.library, max(len(step.shape), 1)
    if step.operator == "nn.bias_add":
        axis = axis_of(step, ndim, 1)
        right = builder.reshaped(right, [right.shape[0] if k == axis else 1 for k in range(ndim)])
    left, right = (builder.reshaped(v, sizes_along(v.shape, ndim)) for v in (left, right))
    whole = left if left.shape == (step.shape or (1,)) else right  # which the result lies as
    if left.shape == right.shape:
        right = builder.to(right, left.desc)
    attributes = library.attributes()
    for post in step.behind:
        attributes.add_eltwise(*ELTWISE[post.operator](post.attributes))
    target = builder.any_of(whole.desc, step.shape) if whole is left else library.desc(step.shape, left.dtype)
    if whole is right:
        left, right = builder.in_order(left), builder.in_order(right)
    alg = BINARY["add" if step.operator == "nn.bias_add" else step.operator]
    primitive = library.primitive("binary", library.engine, alg, left.desc, right.desc, target, attributes.finished())
    result = builder.temporary(primitive.asked(QUERY_DST, 0, step.shape, left.dtype))
    builder.add(primitive, {SRC: left, SRC_1: right, DST: result})
    return result


@builds(*SOFTMAX)
def softmax(builder: Builder, step: Step, data: Value) -> Value:
    """Along one axis."""
    library, axis = builder.library, axis_of(step, len(data.shape), -1)

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        alg = SOFTMAX[step.operator]
        return library.primitive(
            "softmax_forward", library.engine, FORWARD, alg, desc, builder.any_of(desc), axis, attributes
        )

    return _one(builder, step, *builder.best(make, data))


@builds("nn.layer_norm")
def layer_norm(builder: Builder, step: Step, data: Value, gamma: Value, beta: Value) -> Value:
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
    builder: Builder, step: Step, data: Value, gamma: Value, beta: Value, mean: Value, variance: Value
) -> list[Value]:
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


def _affine(step: Step, gamma: Value, beta: Value) -> tuple[int, dict[int, Value]]:
    """The flags and arguments of a normalization's scale and shift."""
    scaled, shifted = step.get("scale", False), step.get("center", False)
    arguments = {**({SCALE: gamma} if scaled else {}), **({SHIFT: beta} if shifted else {})}
    return (USE_SCALE if scaled else 0) | (USE_SHIFT if shifted else 0), arguments


@builds(*REDUCTIONS)
def reduction(builder: Builder, step: Step, data: Value) -> Value:
    """Over some of the axes; means and maxima of whole images are pools, for which there is faster code."""
    library, ndim = builder.library, len(data.shape)
    axes = reduced_axes(step.attributes, ndim)
    shape = [1 if k in axes else size for k, size in enumerate(data.shape)]
    if list(shape) == list(data.shape):
        return builder.reshaped(data, step.shape)
    if step.operator in ("mean", "max") and ndim in (3, 4, 5) and axes == tuple(range(2, ndim)):
        return builder.reshaped(global_pool(builder, data, step.operator), step.shape)

    def make(desc: Desc) -> Primitive:
        attributes = library.attributes().finished()
        alg = REDUCTIONS[step.operator]
        return library.primitive(
            "reduction", library.engine, alg, desc, builder.any_of(desc, shape), 0.0, 0.0, attributes
        )

    primitive, data = builder.best(make, data)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, shape, data.dtype))
    builder.add(primitive, {SRC: data, DST: result})
    return builder.reshaped(result, step.shape)


def reduced_axes(attributes: Mapping[str, Any], ndim: int) -> tuple[int, ...]:
    """The axes that a reduction goes over, none of them below 0."""
    told: Sequence[int] | int | None = attributes["axis"]
    named = [told] if isinstance(told, int) else told
    axes = {int(a) % ndim for a in named} if named is not None else set(range(ndim))
    return tuple(sorted(set(range(ndim)) - axes if attributes["exclude"] else axes))
