"""Images from patches and from pooled elements. Source: ONNX Col2Im-18, MaxUnpool-9/11/22.

Each element of an image is the sum of the patches' elements that fall on it, which are known when importing: they are
taken, beside a zero for those that have fewer, and summed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus, times, windowed
from byoc.ir.types import Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.convolution import per_axis
from byoc.relay.frontend.onnx.dims import matched, reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import is_of_run
from byoc.relay.frontend.onnx.run_time.list_lengths import declared_rank, less, with_length
from byoc.relay.op.run_time.patches import Col2ImTableAttrs
from byoc.runtime.kernels.run_time.patches import Patches


@converter("Col2Im")
def _col2im(node: OnnxNode) -> RelayExpr:
    """``T[N, C * patch, L] -> T[N, C, *image]``."""
    image, block = node.value(1), node.value(2)
    count = _spatial_rank(node)
    node = with_length(with_length(node, 1, count, 1), 2, count, 1)
    lengths = [node.shape(node[k]) for k in (1, 2)]
    if not all(len(shape) == 1 and isinstance(shape[0], int) for shape in lengths) or lengths[0] != lengths[1]:
        raise node.error(f"image_shape and block_shape must be equally many sizes, got {lengths[0]} and {lengths[1]}")
    count = int(lengths[0][0])
    strides, dilations = per_axis(node, "strides", count, 1), per_axis(node, "dilations", count, 1)
    pads = per_axis(node, "pads", 2 * count, 0)
    if image is None or block is None:
        attrs = Col2ImTableAttrs(strides, dilations, pads, node.place)
        table, flat, shape = relay.col2im_table(relay.shape_of(node[0], "int64"), node[1], node[2], attrs)
        total = _gathered(relay.reshape(node[0], flat, allowzero=True), table)
        return relay.reshape(total, shape, allowzero=True)
    sizes, kernel = ([int(v) for v in value.reshape(-1)] for value in (image, block))
    rows, found = node.static_dims_of(node[0], [1, 2], "Col2Im")
    patches = Patches(sizes, kernel, strides, dilations, pads)
    batch, channels = node.shape(node[0])[0], patches.channels(rows, found)
    data = reshaped(node, node[0], [batch, channels, math.prod(kernel) * found])
    return reshaped(node, _gathered(data, constant(patches.sources())), [batch, channels, *sizes])


def _spatial_rank(node: OnnxNode) -> int | None:
    """How many axes an image has: as many as sizes in a list of known length, as the attributes say or the output."""
    stated = [node.shape(node[k])[0] for k in (1, 2) if node.rank(node[k]) == 1]
    listed = [(len(node.attrs.ints(name, [])), each) for name, each in (("strides", 1), ("dilations", 1), ("pads", 2))]
    known = [size for size in stated if isinstance(size, int)] + [count // each for count, each in listed if count]
    return known[0] if known else less(declared_rank(node), 2)


def _gathered(data: RelayExpr, table: RelayExpr) -> RelayExpr:
    """``T[N, C, elements], int64[area, most] -> T[N, C, area]``: sums of those that the table names."""
    behind = relay.nn.pad(data, [(0, 0), (0, 0), (0, 1)])  # the place of what is not there
    return relay.sum(relay.take(behind, table, axis=2), axis=[-1])


@converter("MaxUnpool")
def _max_unpool(node: OnnxNode) -> RelayExpr:
    """``T[N, C, *pooled], int64 like it -> T[N, C, *out]``, 0 elsewhere.

    Indices are places in the flattened data from which it was pooled, whose size follows from the window; with an
    output_shape zeros stand behind that, as ONNX's reference has it.
    """
    shape = node.shape(node[0])
    kernel = node.attrs.ints("kernel_shape")
    count = len(kernel)
    strides, pads = per_axis(node, "strides", count, 1), per_axis(node, "pads", 2 * count, 0)
    if len(shape) != count + 2:
        raise node.error(f"kernel_shape {kernel} does not fit {node.type_of(node[0])}")
    more = [kernel[k] - strides[k] - pads[k] - pads[k + count] for k in range(count)]
    sizes = [windowed(plus(times(shape[k + 2], strides[k]), more[k])) for k in range(count)]
    whole = [*shape[:2], *sizes]
    if min((d for d in whole if isinstance(d, int)), default=1) < 1:
        raise node.error(f"an output of the sizes {whole} has no elements")
    if are_numbers(tuple(whole)):
        made: RelayExpr = constant(whole, "int64")
        empty: RelayExpr = relay.zeros([math.prod(map(int, whole))], node.dtype(node[0]))
    else:
        found = relay.shape_of(node[0], "int64")
        made = relay.add(relay.multiply(found, constant([1, 1, *strides], "int64")), constant([0, 0, *more], "int64"))
        flat = functools.reduce(times, whole)
        empty = matched(node, relay.zeros(relay.prod(made, axis=[0], keepdims=True), node.dtype(node[0])), [flat])
    places = relay.check_indices_like(relay.reshape(node[1], [-1]), empty, [0], node.place)
    scattered = relay.scatter_elements(empty, places, relay.reshape(node[0], [-1]), 0, "update")
    result = matched(node, relay.reshape(scattered, made, allowzero=True), whole)
    return result if node.optional(2) is None else _zeros_behind(node, result, made, whole)


def _zeros_behind(node: OnnxNode, data: RelayExpr, made: RelayExpr, sizes: Sequence[Dim]) -> RelayExpr:
    """*data*, of the *sizes* that the tensor *made* holds, with zeros behind it up to the output_shape of *node*."""
    known = tuple(sizes)
    if is_of_run(node, 2) or not are_numbers(known):
        more = relay.subtract(relay.cast(node[2], "int64"), made)
        behind = relay.check_numbers(more, 0, f"{node.place}: output_shape less the sizes without it")
        padded = relay.nn.pad(data, relay.stack([relay.zeros_like(behind), behind], axis=1))
        return matched(node, padded, node.services.dims(node[2]) or [None] * len(sizes))
    wanted = [int(v) for v in node.known(2, "output_shape")]
    if len(wanted) != len(known) or any(a < b for a, b in zip(wanted, known, strict=True)):
        raise node.error(f"output_shape {wanted} must not be smaller than {list(known)}")
    return relay.nn.pad(data, [(0, a - b) for a, b in zip(wanted, known, strict=True)])
