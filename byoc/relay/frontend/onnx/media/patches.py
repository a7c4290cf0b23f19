"""Images from patches and from pooled elements. Source: ONNX Col2Im-18, MaxUnpool-9/11/22.

Each element of an image is the sum of the patches' elements that fall on it, which are known when importing: they are
taken, beside a zero for those that have fewer, and summed.
"""

from __future__ import annotations

import math

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.convolution import per_axis
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import is_of_run
from byoc.relay.op.run_time.patches import Col2ImTableAttrs
from byoc.runtime.kernels.run_time.patches import Patches


@converter("Col2Im")
def _col2im(node: OnnxNode) -> RelayExpr:
    """``T[N, C * patch, L] -> T[N, C, *image]``."""
    image, block = node.value(1), node.value(2)
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
    if is_of_run(node, 2):
        more = relay.subtract(relay.cast(node[2], "int64"), constant(whole, "int64"))
        behind = relay.check_numbers(more, 0, f"{node.place}: output_shape less {whole}, the sizes that are made,")
        return relay.nn.pad(result, relay.stack([relay.zeros_like(behind), behind], axis=1))
    wanted = [int(v) for v in node.known(2, "output_shape")]
    if len(wanted) != len(whole) or any(a < b for a, b in zip(wanted, whole, strict=True)):
        raise node.error(f"output_shape {wanted} must not be smaller than {whole}")
    return relay.nn.pad(result, [(0, a - b) for a, b in zip(wanted, whole, strict=True)])
