"""Fourier transforms and what goes with them. Source: ONNX DFT-17/20, STFT-17, MelWeightMatrix-17.

The last axis of a signal has one element, or two: real and imaginary part. STFT takes a real signal without that axis
too, as ONNX Runtime does.
"""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import parted, plus, times
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import is_of_run
from byoc.relay.frontend.onnx.run_time.fourier import as_pairs, dft_of_rows, dft_of_run, stft_of_run
from byoc.relay.op.core.window import differ


def _parts(node: OnnxNode, is_real: bool) -> list[RelayExpr]:
    """The real part of the signal and, where it has one, the imaginary one.

    Of a free size the last axis is what a signal must be, if *is_real*, else the imaginary part may be 0.
    """
    signal, shape = node[0], node.shape(node[0])
    if len(shape) > 1 and isinstance(shape[-1], Any):
        signal = relay.match_shape(signal, [*shape[:-1], 1]) if is_real else as_pairs(node, signal)
    size = node.shape(signal)[-1] if len(shape) > 1 else None
    if size not in (1, 2):
        raise node.error(f"the last axis of the signal must have 1 or 2 elements, got {node.type_of(node[0])}")
    assert isinstance(size, int)
    return [relay.squeeze(_taken(signal, -1, k, k + 1), axis=[-1]) for k in range(size)]


def _taken(data: RelayExpr, axis: int, begin: int, end: int) -> RelayExpr:
    return relay.strided_slice(data, begin=[begin], end=[end], strides=[1], axes=[axis])


def _pairs(parts: list[RelayExpr]) -> RelayExpr:
    return relay.stack(parts, axis=-1)


def _to_length(node: OnnxNode, data: RelayExpr, length: int) -> RelayExpr:
    """*data* with *length* elements along its last axis: cut, or with zeros behind."""
    (size,), rank = node.static_dims_of(data, [-1], "the transformed axis"), node.rank(data)
    if size < length:
        return relay.nn.pad(data, [(0, 0)] * (rank - 1) + [(0, length - size)])
    return data if size == length else _taken(data, rank - 1, 0, length)


def _last(data: RelayExpr, axis: int, rank: int, back: bool = False) -> RelayExpr:
    """*data* with *axis* as its last one, or *back* from there."""
    order = [*(a for a in range(rank) if a != axis), axis]
    return (
        data
        if axis == rank - 1
        else relay.transpose(data, axes=[order.index(a) for a in range(rank)] if back else order)
    )


@converter("DFT")
def _dft_attribute(node: OnnxNode) -> RelayExpr:
    return _dft(node, node.attrs.int("axis", 1))


@converter("DFT", since=20)
def _dft_input(node: OnnxNode) -> RelayExpr:
    if is_of_run(node, 2):
        return _of_run(node, node[2])
    return _dft(node, -2 if node.optional(2) is None else int(node.known(2, "axis").reshape(())))


def _of_run(node: OnnxNode, axis: RelayExpr) -> RelayExpr:
    halved = node.attrs.flag("onesided") and not node.attrs.flag("inverse")
    parts = _parts(node, halved)
    if halved and len(parts) == 2:
        raise node.error("a one-sided transform takes a real signal, got a complex one; leave out onesided")
    return dft_of_run(node, parts, axis, node.optional(1) is not None)


def _dft(node: OnnxNode, axis: int) -> RelayExpr:
    """Along *axis*; one-sided the conjugate half is left out, and by the inverse made again."""
    rank = node.rank(node[0])
    axis = node.axis(axis, rank)
    if axis == rank - 1:
        raise node.error("the last axis holds real and imaginary parts and cannot be transformed")
    inverse, onesided = node.attrs.flag("inverse"), node.attrs.flag("onesided")
    if is_of_run(node, 1):
        return _of_run(node, constant(axis, "int64"))
    parts = [_last(part, axis, rank - 1) for part in _parts(node, onesided and not inverse)]
    if onesided and not inverse and len(parts) == 2:
        raise node.error("a one-sided transform takes a real signal, got a complex one; leave out onesided")
    size = node.shape(parts[0])[-1]
    length = None if node.optional(1) is None else int(node.known(1, "dft_length").reshape(()))
    if length is None and inverse and onesided and isinstance(size, int):
        length = 2 * (size - 1)
    if length is not None and length < 1:
        raise node.error(f"dft_length is at least 1, got {length}")
    if isinstance(size, Any) and (onesided or length is not None):
        return _pairs([_last(part, axis, rank - 1, True) for part in _of_free_size(node, parts, size, length)])
    if inverse and onesided:
        assert length is not None
        return relay.expand_dims(_last(_real_inverse(node, parts, length), axis, rank - 1, True), -1)
    if length is not None:
        parts = [_to_length(node, part, length) for part in parts]
    imaginary = parts[1] if len(parts) == 2 else relay.zeros_like(parts[0])
    found: list[RelayExpr] = list(relay.dft(parts[0], imaginary, inverse))
    if onesided:
        (count,) = node.static_dims_of(found[0], [-1], "a one-sided transform")
        found = [_taken(part, rank - 2, 0, count // 2 + 1) for part in found]
    return _pairs([_last(part, axis, rank - 1, True) for part in found])


def _of_free_size(node: OnnxNode, parts: list[RelayExpr], size: Any, length: int | None) -> list[RelayExpr]:
    """The transform along the last axis of *parts*, of a free *size*, cut or with zeros to *length*."""
    inverse, onesided = node.attrs.flag("inverse"), node.attrs.flag("onesided")
    count: Dim = size if length is None else length
    if onesided and not inverse:
        count = plus(parted(count, 2), 1)
    elif onesided and length is None:
        count = times(plus(size, -1), 2)
    found = dft_of_rows(node, parts, None if length is None else constant(length, "int64"))
    return [matched(node, part, [*node.shape(part)[:-1], count]) for part in found]


def _real_inverse(node: OnnxNode, parts: list[RelayExpr], length: int) -> RelayExpr:
    """The real signal of *length* samples whose spectrum begins with *parts*: the rest is its conjugate, backwards."""
    half, rank = length // 2 + 1, node.rank(parts[0])
    real = _to_length(node, parts[0], half)
    imaginary = _to_length(node, parts[1], half) if len(parts) == 2 else relay.zeros_like(real)
    own = np.arange(half)
    lone = constant((own == 0) | (2 * own == length))
    imaginary = relay.where(lone, relay.zeros_like(imaginary), imaginary)  # as numpy's irfft
    mirrored = constant(np.arange(length - half, 0, -1))
    back = relay.negative(relay.take(imaginary, mirrored, axis=rank - 1))
    real = relay.concatenate([real, relay.take(real, mirrored, axis=rank - 1)], axis=rank - 1)
    imaginary = relay.concatenate([imaginary, back], axis=rank - 1)
    return relay.dft(real, imaginary, inverse=True)[0]


@converter("STFT")
def _stft(node: OnnxNode) -> RelayExpr:
    """``[batch, samples, 1 or 2] -> [batch, frames, frequencies, 2]``, or of ``[batch, samples]``."""
    onesided = node.attrs.flag("onesided", True)
    parts = [node[0]] if node.rank(node[0]) == 2 else _parts(node, onesided)
    if onesided and len(parts) == 2:
        raise node.error("a one-sided transform takes a real signal, got a complex one; set onesided to 0")
    length = None if is_of_run(node, 1) or is_of_run(node, 3) else _frame_length(node, parts[0])
    if length is None:
        return stft_of_run(node, parts, onesided)
    step, window = int(node.known(1, "frame_step").reshape(())), node.optional(2)
    if window is not None and isinstance(node.shape(window)[0], Any):
        window = relay.match_shape(window, [length])
    found = [relay.stft(part, length, step, length, window, False, onesided) for part in parts]
    whole = found[0]
    if len(found) == 2:  # of the imaginary part: i (re + i im)
        real, imaginary = (relay.squeeze(_taken(found[1], -1, k, k + 1), axis=[-1]) for k in (0, 1))
        whole = relay.add(whole, _pairs([relay.negative(imaginary), real]))
    return relay.transpose(whole, axes=[0, 2, 1, 3])


def _frame_length(node: OnnxNode, signal: RelayExpr) -> int | None:
    """How many samples a frame has; None where only the run knows it."""
    window = node.optional(2)
    if node.optional(3) is not None:
        length = int(node.known(3, "frame_length").reshape(()))
    else:
        size = node.shape(signal if window is None else window)[-1]
        if not isinstance(size, int):
            return None
        length = size
    if window is not None and (node.rank(window) != 1 or differ(node.shape(window)[0], length)):
        raise node.error(f"the window must be a vector of frame_length {length}, got {node.type_of(window)}")
    return length


@converter("MelWeightMatrix")
def _mel_weight_matrix(node: OnnxNode) -> RelayExpr:
    dtype = dtype_of(node.attrs.int("output_datatype", 1), f"the attribute output_datatype of node {node.name}")
    return relay.mel_weight_matrix(node[0], node[1], node[2], node[3], node[4], dtype)
