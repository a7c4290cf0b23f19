"""Fourier transforms whose axis, length or frames are known only when the model runs. Source: ONNX DFT-20, STFT-17.

Parts are the real and, where there is one, the imaginary part; a transform is one of the rows of a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.run_time.slices import item, number_of_run, padded_by


def i64(value: int) -> RelayExpr:
    """An int64 scalar."""
    return constant(value, "int64")


def dft_of_run(node: OnnxNode, parts: Sequence[RelayExpr], axis: RelayExpr, has_length: bool) -> RelayExpr:
    """The DFT of *parts*, the signal without its last axis, along *axis*, which counts that one."""
    rank = node.rank(node[0])
    place = relay.check_indices(relay.reshape(axis, [1]), [rank], [0], f"{node.place}: axis among the dimensions")
    rows: list[RelayExpr] = [relay.group_axes(part, place, check=node.place) for part in parts]
    found = dft_of_rows(node, rows, number_of_run(node, 1, "dft_length", 1) if has_length else None)
    back = [relay.ungroup_axes(row, parts[0], place, True, node.place) for row in found]
    return relay.stack(back, axis=-1)


def dft_of_rows(node: OnnxNode, rows: Sequence[RelayExpr], length: RelayExpr | None) -> list[RelayExpr]:
    """The transform of *rows* along their last axis, which first becomes *length* long; of a real signal one part."""
    inverse, onesided = node.attrs.flag("inverse"), node.attrs.flag("onesided")
    if inverse and onesided:
        return [_real_inverse(node, rows, length)]
    rows = rows if length is None else [_to_length(node, row, length) for row in rows]
    found = transformed(rows, inverse)
    return [first_half(node, row) for row in found] if onesided else found


def transformed(parts: Sequence[RelayExpr], inverse: bool) -> list[RelayExpr]:
    """Both parts of the transform of the last axis."""
    imaginary = parts[1] if len(parts) == 2 else relay.zeros_like(parts[0])
    return list(relay.dft(parts[0], imaginary, inverse))


def first_half(node: OnnxNode, data: RelayExpr) -> RelayExpr:
    """Along the last axis the frequencies of which the others are the conjugates."""
    count = relay.add(relay.floor_divide(_last_size(node, data), i64(2)), i64(1))
    ones = constant(np.ones(1, "int64"))
    zeros = constant(np.zeros(1, "int64"))
    return relay.strided_slice(data, zeros, relay.reshape(count, [1]), ones, axes=[node.rank(data) - 1])


def _last_size(node: OnnxNode, data: RelayExpr) -> RelayExpr:
    return item(relay.shape_of(data, "int64"), node.rank(data) - 1)


def _to_length(node: OnnxNode, rows: RelayExpr, length: RelayExpr) -> RelayExpr:
    """*rows* cut along the last axis, or with zeros behind."""
    more = relay.subtract(length, _last_size(node, rows))
    pads = relay.stack([i64(0), more], axis=0)
    return padded_by(node, rows, pads, constant([node.rank(rows) - 1], "int64"), "constant", 0.0)


def _real_inverse(node: OnnxNode, rows: Sequence[RelayExpr], length: RelayExpr | None) -> RelayExpr:
    """The real signal whose spectrum begins with *rows*: the rest is its conjugate, backwards, as numpy's irfft."""
    last = node.rank(rows[0]) - 1
    if length is None:
        length = relay.multiply(i64(2), relay.subtract(_last_size(node, rows[0]), i64(1)))
    half = relay.add(relay.floor_divide(length, i64(2)), i64(1))
    real = _to_length(node, rows[0], half)
    imaginary = _to_length(node, rows[1], half) if len(rows) == 2 else relay.zeros_like(real)
    own = relay.arange(i64(0), half, i64(1), dtype="int64")
    lone = relay.logical_or(relay.equal(own, i64(0)), relay.equal(relay.multiply(own, i64(2)), length))
    imaginary = relay.where(lone, relay.zeros_like(imaginary), imaginary)
    mirrored = relay.arange(relay.subtract(length, half), i64(0), i64(-1), dtype="int64")
    behind = [relay.take(part, mirrored, axis=last) for part in (real, relay.negative(imaginary))]
    real, imaginary = (relay.concatenate(pair, axis=last) for pair in zip((real, imaginary), behind, strict=True))
    return relay.dft(real, imaginary, inverse=True)[0]


def as_pairs(node: OnnxNode, signal: RelayExpr) -> RelayExpr:
    """*signal*, whose last axis has 1 or 2 elements, with 2: the imaginary part is 0 where it has none.

    The run looks how many it has.
    """
    last = node.rank(signal) - 1
    what = f"{node.place}: the last axis of the signal"
    count = relay.check_numbers(_last_size(node, signal), 1, what)
    missing = relay.check_numbers(relay.subtract(i64(2), count), 0, f"{what}, which has 1 or 2 elements: 2 less these")
    pads = relay.stack([i64(0), missing], axis=0)
    padded = padded_by(node, signal, pads, constant([last], "int64"), "constant", 0.0)
    return relay.match_shape(padded, [*node.shape(signal)[:-1], 2])


def stft_of_run(node: OnnxNode, parts: Sequence[RelayExpr], onesided: bool) -> RelayExpr:
    """``[batch, frames, frequencies, 2]`` of frames whose step or length an input holds."""
    step = number_of_run(node, 1, "frame_step", 1)
    window = node.optional(2)
    if node.optional(3) is not None:
        length = number_of_run(node, 3, "frame_length", 1)
    else:
        length = _last_size(node, parts[0] if window is None else window)
    weights = constant([], node.dtype(parts[0])) if window is None else window
    found = transformed([relay.frames(part, weights, length, step, node.place) for part in parts], False)
    return relay.stack([first_half(node, row) for row in found] if onesided else found, axis=-1)
