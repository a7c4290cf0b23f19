"""Changing the size of images of any rank. Source: ONNX Upsample-1/7/9, Resize-10/11/13/18/19."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.dims import Dim, are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.rounding import rounded, working_dtype
from byoc.relay.frontend.onnx.run_time.axes import is_of_run
from byoc.relay.frontend.onnx.run_time.list_lengths import with_length
from byoc.relay.frontend.onnx.run_time.resizing import (
    by_scale,
    by_size,
    needs_known_sizes,
    resized_at_run_time,
    resized_by_inputs,
)
from byoc.runtime.kernels.images.interpolation import (
    COORDINATES,
    MAX_WEIGHTS,
    NEAREST,
    POLICIES,
    ResizedAxis,
    Sampling,
    nearest_positions,
    original_positions,
    resized_sizes,
    taps,
)


def _resized(node: OnnxNode, axes: Sequence[ResizedAxis], sampling: Sampling) -> RelayExpr:
    """Axis by axis: a choice of positions, or weighted sums of a few. An axis that stays is left alone."""
    changed = [
        (position, axis)
        for position, axis in enumerate(axes)
        if axis.size != axis.new or axis.scale != 1 or sampling.coordinates == "tf_crop_and_resize"
    ]
    for _, axis in changed:
        _check_size(node, axis, sampling)
    if sampling.mode == "nearest":
        data = node[0]
        for position, axis in changed:
            data = relay.take(data, constant(nearest_positions(axis, sampling)), axis=position)
        return data
    dtype = node.dtype(node[0])
    data = relay.cast(node[0], working_dtype(dtype)) if changed else node[0]
    for position, axis in sorted(changed, key=_order):
        places, weights = taps(axis, sampling)
        data = relay.image.resample(data, constant(places), constant(weights.astype(node.dtype(data))), axis=position)
    return rounded(data, dtype) if changed else data


def _order(changed: tuple[int, ResizedAxis]) -> tuple[float, int]:
    """What shrinks comes first; reading along the last axis is slow, so that it is done while the others are small."""
    position, axis = changed
    ratio = axis.new / axis.size
    return ratio, position if ratio < 1 else -position


def _check_size(node: OnnxNode, axis: ResizedAxis, sampling: Sampling) -> None:
    if axis.new < 0 or axis.scale <= 0 or axis.size < 1 < 1 + axis.new:
        raise node.error(f"a dimension of {axis.size} cannot be resized to {axis.new}")
    each = 1 if sampling.mode == "nearest" else 4 / (min(axis.scale, 1.0) if sampling.antialias else 1.0)
    if axis.new * each > MAX_WEIGHTS:
        raise node.error(f"a dimension of {axis.size} cannot be resized to {axis.new}")


def _by_factors(node: OnnxNode, scales: Sequence[float], sampling: Sampling) -> RelayExpr:
    """Each axis of the data enlarged by its factor."""
    sizes = node.shape(node[0])
    if len(scales) != len(sizes) or min(scales, default=1) <= 0:
        raise node.error(f"scales needs {len(sizes)} positive numbers, got {list(scales)}")
    if _is_dynamic(node) or not are_numbers(sizes):
        return _at_run_time(node, list(range(len(sizes))), scales, None, sampling)
    return _resized(node, _scaled(sizes, scales), sampling)


def _is_dynamic(node: OnnxNode) -> bool:
    """True where the sizes of the data, or those wanted, are known only at run time."""
    return any(is_of_run(node, k) for k in (2, 3)) or any(isinstance(d, Any) for d in node.shape(node[0]))


def _at_run_time(
    node: OnnxNode, chosen: Sequence[int], scales: Sequence[float] | None, sizes: RelayExpr | None, sampling: Sampling
) -> RelayExpr:
    """The axes one after another, by their *scales* or by *sizes*, a vector of the graph."""
    dtype, data = node.dtype(node[0]), node[0]
    if sampling.mode != "nearest":
        data = relay.cast(data, working_dtype(dtype))
    if sizes is not None and node.services.dims(node[3]) is None:  # made of sizes, they are known without a look
        sizes = _looked_at(node, sizes, chosen)
    for k, axis in enumerate(chosen):
        if scales is not None:
            if scales[k] != 1:
                data = resized_at_run_time(node, data, by_scale(node[0], axis, scales[k]), sampling)
        elif not _is_kept(node, k, axis):
            assert sizes is not None  # where there are no scales
            new = relay.take(sizes, constant(k, "int64"))
            data = resized_at_run_time(node, data, by_size(node[0], axis, new), sampling)
    return data if sampling.mode == "nearest" else rounded(data, dtype)


def _looked_at(node: OnnxNode, sizes: RelayExpr, chosen: Sequence[int]) -> RelayExpr:
    """The *sizes* of the run, which looks whether they are positive where the axis has elements."""
    before = relay.take(relay.shape_of(node[0], "int64"), constant(list(chosen), "int64"), axis=0)
    empty = relay.equal(before, constant(0, "int64"))
    positive = relay.all(relay.logical_or(relay.greater(sizes, node.like(0, sizes)), empty))
    return relay.check_condition(sizes, positive, True, f"{node.place}: 'all sizes are positive'")


def _is_kept(node: OnnxNode, k: int, axis: int) -> bool:
    """True where number *k* of sizes is known to be the size that the axis has."""
    dims = node.services.dims(node[3])
    size = node.shape(node[0])[axis]
    return dims is not None and dims[k] == size and (isinstance(size, int) or bool(size.name))


def _scaled(sizes: Sequence[int], scales: Sequence[float]) -> list[ResizedAxis]:
    return [ResizedAxis(size, math.floor(size * scale), scale) for size, scale in zip(sizes, scales, strict=True)]


def _checked(node: OnnxNode, sampling: Sampling) -> Sampling:
    known: list[tuple[str, str, Sequence[str]]] = [
        ("mode", sampling.mode, ("nearest", "linear", "cubic")),
        ("coordinate_transformation_mode", sampling.coordinates, tuple(COORDINATES)),
        ("nearest_mode", sampling.nearest, tuple(NEAREST)),
    ]
    for name, value, allowed in known:
        if value not in allowed:
            raise node.error(f"{name} is one of {', '.join(allowed)}, got {value!r}")
    return sampling


def _old_sampling(node: OnnxNode) -> Sampling:
    """Before opset 11 coordinates were just divided by the scale; bilinear is another name of linear."""
    mode = node.attrs.string("mode", "nearest")
    return _checked(node, Sampling("linear" if mode == "bilinear" else mode))


@converter("Upsample")
def _upsample_2d(node: OnnxNode) -> RelayExpr:
    scales = [1.0, 1.0, node.attrs.float("height_scale"), node.attrs.float("width_scale")]
    return _by_factors(node, scales, _old_sampling(node))


@converter("Upsample", since=7)
def _upsample_attribute(node: OnnxNode) -> RelayExpr:
    return _by_factors(node, node.attrs.floats("scales"), _old_sampling(node))


@converter("Upsample", since=9)
@converter("Resize", since=10)
def _resize_10(node: OnnxNode) -> RelayExpr:
    if is_of_run(node, 1):
        _check_count(node, node[1], list(range(node.rank(node[0]))))
        return resized_by_inputs(node, range(node.rank(node[0])), _old_sampling(node), (None, node[1], None))
    scales = [float(s) for s in node.known(1, "scales").reshape(-1)]
    return _by_factors(node, scales, _old_sampling(node))


@converter("Resize", since=11)
def _resize(node: OnnxNode) -> RelayExpr:
    sampling = _checked(
        node,
        Sampling(
            node.attrs.string("mode", "nearest"),
            node.attrs.string("coordinate_transformation_mode", "half_pixel"),
            node.attrs.string("nearest_mode", "round_prefer_floor"),
            node.attrs.float("cubic_coeff_a", -0.75),
            node.attrs.flag("exclude_outside"),
            node.attrs.flag("antialias"),
        ),
    )
    crops = sampling.coordinates == "tf_crop_and_resize"
    if _is_dynamic(node) or (crops and is_of_run(node, 1)):
        return _resize_dynamic(node, sampling)
    axes = _axes_of(node)
    if not crops:
        return _resized(node, axes, sampling)
    result = _resized(node, axes, sampling)
    outside = _outside(axes, sampling)
    if not outside.any():
        return result
    filler = node.like(node.attrs.float("extrapolation_value", 0.0), result)
    return relay.where(constant(outside), filler, result)


def _resize_dynamic(node: OnnxNode, sampling: Sampling) -> RelayExpr:
    rank = node.rank(node[0])
    chosen = [node.axis(a, rank) for a in node.attrs.ints("axes", list(range(rank)))]
    if is_of_run(node, 2) or needs_known_sizes(sampling) or _policy(node) != "stretch":
        given = [node.optional(k) for k in (1, 2, 3)]
        roi, factors, wanted = (None if v is None or node.shape(v) == (0,) else v for v in given)
        if (factors is None) == (wanted is None):
            raise node.error("needs either scales or sizes")
        for numbers in (factors, wanted):
            if numbers is not None:
                _check_count(node, numbers, chosen)
        return resized_by_inputs(node, chosen, sampling, (roi, factors, wanted))
    scales = _numbers(node, 2, "scales")
    node = with_length(node, 3, len(chosen))
    sizes = node.optional(3) if scales is None else None
    if scales is not None:
        count: Dim = len(scales)
    elif sizes is not None:
        count = node.shape(sizes)[0]
    else:
        raise node.error("needs either scales or sizes")
    if count != len(chosen) or (scales is not None and min(scales, default=1) <= 0):
        raise node.error(f"{len(chosen)} axes are resized, which need as many positive numbers, got {scales or count}")
    return _at_run_time(node, chosen, scales, sizes, sampling)


def _check_count(node: OnnxNode, numbers: RelayExpr, chosen: Sequence[int]) -> None:
    count = node.shape(numbers)
    if len(count) != 1 or (isinstance(count[0], int) and count[0] != len(chosen)):
        raise node.error(f"{len(chosen)} axes are resized, which need as many numbers, got {node.type_of(numbers)}")


def _policy(node: OnnxNode) -> str:
    policy = node.attrs.string("keep_aspect_ratio_policy", "stretch")
    if policy not in POLICIES:
        raise node.error(f"keep_aspect_ratio_policy is stretch, not_larger or not_smaller, got {policy!r}")
    return policy


def _axes_of(node: OnnxNode) -> list[ResizedAxis]:
    """Every axis of the data, from scales or sizes, which may be given for some of them (opset 18)."""
    shape = node.static_dims(node[0], "resizing")
    rank = len(shape)
    chosen = [node.axis(a, rank) for a in node.attrs.ints("axes", list(range(rank)))]
    roi = _roi(node, chosen)
    scales, sizes = _numbers(node, 2, "scales"), _numbers(node, 3, "sizes")
    found = [numbers for numbers in (scales, sizes) if numbers is not None]
    if len(found) != 1:
        raise node.error("needs either scales or sizes")
    given = found[0]
    if len(given) != len(chosen):
        raise node.error(f"{len(chosen)} axes are resized, got {len(given)} numbers: {given}")
    axes = [ResizedAxis(size, size, 1.0) for size in shape]
    if scales is not None and min(scales, default=1) <= 0:
        raise node.error(f"scales must be positive, got {list(scales)}")
    resized = resized_sizes([shape[axis] for axis in chosen], scales, sizes, _policy(node))
    for axis, (new, scale), part in zip(chosen, resized, roi, strict=True):
        axes[axis] = ResizedAxis(shape[axis], new, scale, part)
    return axes


def _numbers(node: OnnxNode, index: int, what: str) -> list[float] | None:
    if node.optional(index) is None:
        return None
    values = [float(v) for v in node.known(index, what).reshape(-1)]
    return values or None


def _roi(node: OnnxNode, chosen: Sequence[int]) -> list[tuple[float, float]]:
    whole = [(0.0, 1.0)] * len(chosen)
    if node.attrs.string("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return whole
    values = _numbers(node, 1, "roi")
    if values is None or len(values) != 2 * len(chosen):
        raise node.error(f"tf_crop_and_resize needs a roi of {2 * len(chosen)} numbers, got {values}")
    return list(zip(values[: len(chosen)], values[len(chosen) :], strict=True))


def _outside(axes: Sequence[ResizedAxis], sampling: Sampling) -> np.ndarray:
    """True for resized elements that lie beyond the original ones, which take the extrapolation value."""
    outside = np.zeros([1] * len(axes), bool)
    for position, axis in enumerate(axes):
        x = original_positions(axis, sampling)
        beyond = (x < 0) | (x > axis.size - 1)
        outside = outside | beyond.reshape([-1 if k == position else 1 for k in range(len(axes))])
    return outside
