"""Weights of 2, 4 or 8 bits, in blocks that share a scale: products and tables of rows.

Source: ONNX Runtime's MatMulNBits-1, whose blocks lie along K, and GatherBlockQuantized-1.

The weights are dequantised in float32, (code - zero point) * scale, and multiplied in the type of A. What
``accuracy_level`` lets ONNX Runtime round more coarsely (A as int8 in blocks) is not rounded here.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter

BITS = (2, 4, 8)


@converter("MatMulNBits", domain=MICROSOFT)
def _matmul_of_packed_weights(node: OnnxNode) -> RelayExpr:
    """A: f[..., K], B: u8[N, blocks, bytes of a block], scales: f[N, blocks], zero points packed likewise or floats,
    the block of each k (``g_idx``: i32[K]), bias: f[N] -> f[..., N].
    """
    bits, block = node.attrs.int("bits", 4), node.attrs.int("block_size")
    rows, depth = node.attrs.int("N"), node.attrs.int("K")
    _check(node, bits, block, rows, depth)
    blocks = -(-depth // block)
    codes = relay.reshape(_unpacked(node[1], bits), [rows, blocks * block])
    codes = relay.cast(relay.strided_slice(codes, begin=[0], end=[depth], strides=[1], axes=[1]), "float32")
    offset = _along_depth(node, _zero_points(node, bits, rows, blocks), block, depth)
    scale = _along_depth(node, relay.cast(relay.reshape(node[2], [rows, blocks]), "float32"), block, depth)
    weight = relay.cast(relay.multiply(relay.subtract(codes, offset), scale), node.dtype(node[0]))
    product = matrix_product(node, node[0], node.fold(relay.transpose(node.fold(weight), axes=[1, 0])))
    bias = node.optional(5)
    return product if bias is None else relay.add(product, bias)


def _check(node: OnnxNode, bits: int, block: int, rows: int, depth: int) -> None:
    """Raises ImportModelError for attributes and shapes that do not fit each other."""
    if bits not in BITS:
        raise node.error(f"bits is 2, 4 or 8, got {bits}")
    if block < 16 or block & (block - 1):
        raise node.error(f"block_size is a power of 2 from 16 on, got {block}")
    if node.attrs.int("weight_prepacked", 0):
        raise node.error("weights in a device's own order (weight_prepacked) cannot be read: export it without")
    expected = (rows, -(-depth // block), block * bits // 8)
    if min(rows, depth) < 1 or node.type_of(node[1]).dtype != "uint8" or node.shape(node[1]) != expected:
        raise node.error(f"B is uint8{list(expected)} for N {rows} and K {depth}, got {node.type_of(node[1])}")
    if node.shape(node[0])[-1:] != (depth,):
        raise node.error(f"the last dimension of A is K, {depth}, got {node.type_of(node[0])}")


def _unpacked(data: RelayExpr, bits: int) -> RelayExpr:
    """The codes in bytes, u8[..., n] -> u8[..., n, 8 / bits]: the first in the lowest bits."""
    mask = constant(2**bits - 1, "uint8")
    parts = [relay.right_shift(data, constant(shift, "uint8")) for shift in range(0, 8, bits)]
    return relay.stack([relay.bitwise_and(part, mask) for part in parts], axis=-1)


def _zero_points(node: OnnxNode, bits: int, rows: int, blocks: int) -> RelayExpr:
    """The zero point of each block, f32[N, blocks]: packed bytes, numbers as they are, or the middle of the codes."""
    given = node.optional(3)
    if given is None:
        return relay.full(constant(float(2 ** (bits - 1)), "float32"), [rows, blocks], "float32")
    if node.dtype(given) != "uint8":
        return relay.cast(relay.reshape(given, [rows, blocks]), "float32")
    packed = relay.reshape(given, [rows, -(-blocks * bits // 8)])
    codes = relay.reshape(_unpacked(packed, bits), [rows, -1])
    return relay.cast(relay.strided_slice(codes, begin=[0], end=[blocks], strides=[1], axes=[1]), "float32")


def _along_depth(node: OnnxNode, value: RelayExpr, block: int, depth: int) -> RelayExpr:
    """A number a block as one for each k, f32[N, K]: by blocks in order, or as ``g_idx`` says."""
    places = node.optional(4)
    if places is not None:
        return relay.take(value, places, axis=1)
    spread = relay.repeat(value, block, 1)
    return relay.strided_slice(spread, begin=[0], end=[depth], strides=[1], axes=[1])


@converter("GatherBlockQuantized", domain=MICROSOFT)
def _gathered_blocks(node: OnnxNode) -> RelayExpr:
    """Gather of numbers in blocks along ``quantize_axis``, (code - zero point) * scale; 0 for an index that has none.

    Inputs: codes as int4, uint4 or bytes that hold 8 / ``bits`` of them along the last axis, indices, a scale for each
    block, zero points as the codes.
    """
    data, indices, scales, zeros = node[0], node[1], node[2], node.optional(3)
    rank, bits = node.rank(data), node.attrs.int("bits", 4)
    axis, along = (node.axis(node.attrs.int(n, d), rank) for n, d in (("gather_axis", 0), ("quantize_axis", 1)))
    block = node.attrs.int("block_size", 128)
    packed, middle = node.dtype(data) == "uint8", 0.0
    if (not packed and node.dtype(data) not in ("int4", "uint4")) or bits not in BITS or (packed and axis):
        raise node.error(f"codes are int4, uint4 or packed in uint8 and taken along axis 0, got {node.type_of(data)}")
    if block < 16 or block & (block - 1):
        raise node.error(f"block_size is a power of 2 from 16 on, got {block}")
    if packed:
        middle = float(2 ** (bits - 1))
        data = _codes(node, data, bits)
        if zeros is not None:
            zeros = relay.strided_slice(
                _codes(node, zeros, bits), begin=[0], end=[node.shape(scales)[-1]], strides=[1], axes=[rank - 1]
            )
    count = constant(node.static_dims_of(data, [axis], "GatherBlockQuantized")[0], node.dtype(indices))
    zero = constant(0, node.dtype(indices))
    wanted = relay.where(relay.less(indices, zero), relay.add(indices, count), indices)
    inside = relay.logical_and(relay.greater_equal(wanted, zero), relay.less(wanted, count))
    wanted = relay.where(inside, wanted, relay.zeros_like(wanted))
    places = relay.floor_divide(wanted, constant(block, node.dtype(indices))) if along == axis else wanted
    made = relay.cast(relay.take(data, wanted, axis=axis), "float32")
    shift = along if along < axis else along + node.rank(indices) - 1

    def spread(value: RelayExpr) -> RelayExpr:
        """A number for each block as one for each element."""
        taken = relay.cast(relay.take(value, places, axis=axis), "float32")
        if along == axis:
            return taken
        size = node.static_dims_of(made, [shift], "GatherBlockQuantized")[0]
        return relay.strided_slice(relay.repeat(taken, block, shift), begin=[0], end=[size], strides=[1], axes=[shift])

    offset = constant(middle, "float32") if zeros is None else spread(zeros)
    found = relay.multiply(relay.subtract(made, offset), spread(scales))
    kept = relay.expand_dims(inside, node.rank(inside), rank - 1 - axis) if axis < rank - 1 else inside
    return relay.cast(relay.where(kept, found, constant(0, "float32")), node.dtype(scales))


def _codes(node: OnnxNode, data: RelayExpr, bits: int) -> RelayExpr:
    """The codes in the bytes of the last axis, u8[..., n] -> u8[..., n * 8 / bits]."""
    return data if bits == 8 else reshaped(node, _unpacked(data, bits), [*node.shape(data)[:-1], None])
