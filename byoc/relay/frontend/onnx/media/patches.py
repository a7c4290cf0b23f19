"""Images from patches and from pooled elements. Source: ONNX Col2Im-18, MaxUnpool-9/11/22.

Each element of an image is the sum of the patches' elements that fall on it, which are known when importing: they are
taken, beside a zero for those that have fewer, and summed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.convolution import Window, per_axis
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

MAX_PLACES = 1 << 24  # of a table that is made when importing; a larger one is a damaged model


@converter("Col2Im")
def _col2im(node: OnnxNode) -> RelayExpr:
    """``T[N, C * patch, L] -> T[N, C, *image]``."""
    image, patch = (
        [int(v) for v in node.known(k, name).reshape(-1)] for k, name in ((1, "image_shape"), (2, "block_shape"))
    )
    count = len(image)
    strides, dilations = per_axis(node, "strides", count, 1), per_axis(node, "dilations", count, 1)
    window = Window(tuple(patch), strides, dilations, per_axis(node, "pads", 2 * count, 0))
    if len(patch) != count or min(*image, *patch, *strides, *dilations) < 1 or min(window.pads) < 0:
        raise node.error(f"image_shape {image} and block_shape {patch} must have as many positive sizes")
    area, each = math.prod(image), math.prod(patch)
    rows, found = node.static_dims_of(node[0], [1, 2], "Col2Im")
    table = _sources(node, window, image)
    if rows % each or found != _steps(window, image):
        raise node.error(
            f"patches of {patch} in an image of {image} are [N, C * {each}, {_steps(window, image)}], "
            f"got {node.type_of(node[0])}"
        )
    batch, channels = node.shape(node[0])[0], rows // each
    flat = reshaped(node, node[0], [batch, channels, each * found])
    behind = relay.nn.pad(flat, [(0, 0), (0, 0), (0, 1)])  # the place of what is not there
    total = relay.sum(relay.take(behind, constant(table), axis=2), axis=[-1])
    assert area == len(table)
    return reshaped(node, total, [batch, channels, *image])


def _positions(window: Window, image: Sequence[int]) -> list[int]:
    """How many patches stand along each axis."""
    pads = window.pads
    return [
        (size + pads[k] + pads[k + len(image)] - window.extents[k]) // window.strides[k] + 1
        for k, size in enumerate(image)
    ]


def _steps(window: Window, image: Sequence[int]) -> int:
    return math.prod(_positions(window, image))


def _sources(node: OnnxNode, window: Window, image: Sequence[int]) -> np.ndarray:
    """int64[area, most]: for each element of the image the elements of its patches, then the place behind all."""
    rank, positions = len(image), _positions(window, image)
    if min(positions) < 1 or math.prod(positions) * math.prod(window.kernel) > MAX_PLACES:
        raise node.error(f"cannot place patches of {list(window.kernel)} in an image of {list(image)}")
    offsets = np.indices(window.kernel).reshape(rank, -1, 1) * np.reshape(window.dilations, (rank, 1, 1))
    starts = np.indices(positions).reshape(rank, 1, -1) * np.reshape(window.strides, (rank, 1, 1))
    places = (offsets + starts - np.reshape(window.pads[:rank], (rank, 1, 1))).reshape(rank, -1)
    inside = np.flatnonzero(((places >= 0) & (places < np.reshape(image, (rank, 1)))).all(0))
    target = np.ravel_multi_index(tuple(places[:, inside]), tuple(image))
    order = np.argsort(target, kind="stable")
    counts = np.bincount(target, minlength=math.prod(image))
    table = np.full((math.prod(image), max(int(counts.max(initial=0)), 1)), places.shape[1], "int64")
    starts_of = np.concatenate([[0], np.cumsum(counts)[:-1]])
    table[target[order], np.arange(len(order)) - starts_of[target[order]]] = inside[order]
    return table


@converter("MaxUnpool")
def _max_unpool(node: OnnxNode) -> RelayExpr:
    """``T[N, C, *pooled], int64 like it -> T[N, C, *out]``, 0 elsewhere.

    Indices are places in the flattened data from which it was pooled, whose size follows from the window; with an
    output_shape zeros stand behind that, as ONNX's reference has it.
    """
    shape = node.static_dims(node[0], "MaxUnpool")
    kernel = node.attrs.ints("kernel_shape")
    count = len(kernel)
    strides, pads = per_axis(node, "strides", count, 1), per_axis(node, "pads", 2 * count, 0)
    if len(shape) != count + 2:
        raise node.error(f"kernel_shape {kernel} does not fit {node.type_of(node[0])}")
    sizes = [(shape[k + 2] - 1) * strides[k] - pads[k] - pads[k + count] + kernel[k] for k in range(count)]
    whole = [*shape[:2], *sizes]
    if min(whole) < 1:
        raise node.error(f"an output of the sizes {whole} has no elements")
    places = relay.reshape(node[1], [-1])
    places = relay.check_indices(places, [math.prod(whole)], [0], f"node {node.name} ({node.op_type})")
    empty = relay.zeros([math.prod(whole)], node.dtype(node[0]))
    result = relay.reshape(relay.scatter_elements(empty, places, relay.reshape(node[0], [-1]), 0, "update"), whole)
    if node.optional(2) is None:
        return result
    wanted = [int(v) for v in node.known(2, "output_shape")]
    if len(wanted) != len(whole) or any(a < b for a, b in zip(wanted, whole, strict=True)):
        raise node.error(f"output_shape {wanted} must not be smaller than {whole}")
    return relay.nn.pad(result, [(0, a - b) for a, b in zip(wanted, whole, strict=True)])
