"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.ir.types import tensor_types
from byoc.relay.onnx_writer.graph import BEYOND
from byoc.relay.onnx_writer.rules import Rule, Written, needs, static
from byoc.runtime.kernels.movement.transform import VIEWS


def reshape(at: Written) -> str:
    """To the result's shape, which has one free size at most."""
    shape = [d if isinstance(d, int) else -1 for d in at.result.shape]
    needs(shape.count(-1) <= 1, f"a shape with several free sizes, {at.result}")
    needs(-1 not in shape or 0 not in shape, f"a shape with a free size beside 0, {at.result}")
    return at.value("Reshape", at.names[0], at.graph.constant(shape), allowzero=1 if 0 in shape else None)


def transpose(at: Written) -> str:
    """By the order of axes; reversed without one."""
    rank = len(at.result.shape)
    axes = [int(a) % rank for a in at.attrs.axes] if at.attrs.axes else list(reversed(range(rank)))
    return at.value("Transpose", at.names[0], perm=axes) if axes else at.value("Identity", at.names[0])


def concatenate(at: Written) -> str:
    """Along one axis."""
    return at.value("Concat", *at.names, axis=int(at.attrs.axis))


def stack(at: Written) -> str:
    """Each with a new axis, joined along it."""
    axis = int(at.attrs.axis) % len(at.result.shape)
    where = at.graph.constant([axis])
    parts = [at.value("Unsqueeze", name, where) for name in at.names]
    return parts[0] if len(parts) == 1 else at.value("Concat", *parts, axis=axis)


def split(at: Written) -> list[str]:
    """Into parts whose sizes are known."""
    axis = int(at.attrs.axis)
    fields = tensor_types(at.call.checked_type)
    sizes = [int(field.shape[axis]) for field in fields if isinstance(field.shape[axis], int)]
    needs(len(sizes) == len(fields), "split of an axis of free size")
    return at.graph.node("Split", [at.names[0], at.graph.constant(sizes)], len(sizes), axis=axis)


def strided_slice(at: Written) -> str:
    """By begins, ends and steps along the axes that have them, of static tensors."""
    static(at.type(0))
    static(at.result)
    return sliced(at)


def sliced(at: Written) -> str:
    """By begins, ends and steps along the axes that have them."""
    attrs, shape = at.attrs, at.type(0).shape
    begin, end = list(map(int, attrs.begin)), list(map(int, attrs.end))
    axes = [int(a) % len(shape) for a in attrs.axes] if attrs.axes else list(range(len(begin)))
    steps = [int(s) for s in attrs.strides] if attrs.strides else []
    steps += [steps[-1] if len(steps) == 1 else 1] * (len(begin) - len(steps))
    if attrs.slice_mode == "size":
        end = [BEYOND if e < 0 else b + e for b, e in zip(begin, end, strict=True)]
        steps = [1] * len(begin)
    needs(all(step > 0 for step in steps), "strided_slice with a negative step")
    return at.value("Slice", at.names[0], *map(at.graph.constant, (begin, end, axes, steps)))


def broadcast_to(at: Written) -> str:
    """To a static shape."""
    return at.value("Expand", at.names[0], at.graph.constant(list(static(at.result))))


def tile(at: Written) -> str:
    """Of a tensor that has as many axes as there are repeats."""
    reps, rank = [int(r) for r in at.attrs.reps], len(at.type(0).shape)
    needs(len(reps) <= rank, "tile with more repeats than axes")
    return at.value("Tile", at.names[0], at.graph.constant([1] * (rank - len(reps)) + reps))


def pad(at: Written) -> str:
    """With a constant, the edge or a reflection; widths from 0."""
    mode = str(at.attrs.pad_mode)
    widths = [(int(low), int(high)) for low, high in at.attrs.pad_width]
    needs(mode in ("constant", "edge", "reflect"), f"pad_mode {mode}")
    needs(all(w >= 0 for pair in widths for w in pair), "a pad that cuts")
    pads = at.graph.constant([low for low, _ in widths] + [high for _, high in widths])
    if mode != "constant":
        return at.value("Pad", at.names[0], pads, mode=mode)
    value = np.asarray(at.constant(1).data.numpy()).reshape(()).astype(at.constant(1).data.numpy().dtype)
    needs(str(value.dtype) == at.result.dtype, f"a pad value of {value.dtype} for {at.result.dtype}")
    return at.value("Pad", at.names[0], pads, at.graph.constant(value), mode=mode)


def blocks(at: Written) -> str:
    """Of NCHW, depth first."""
    needs(at.attrs.layout == "NCHW", f"layout {at.attrs.layout}")
    size = int(at.attrs.block_size)
    if at.operator == "nn.space_to_depth":
        return at.value("SpaceToDepth", at.names[0], blocksize=size)
    return at.value("DepthToSpace", at.names[0], blocksize=size, mode=str(at.attrs.mode))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(VIEWS, reshape),
    "transpose": transpose,
    "concatenate": concatenate,
    "stack": stack,
    "split": split,
    "strided_slice": strided_slice,
    "broadcast_to": broadcast_to,
    "tile": tile,
    "nn.pad": pad,
    "nn.depth_to_space": blocks,
    "nn.space_to_depth": blocks,
}
