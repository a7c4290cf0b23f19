"""Quantized blocks as oneDNN computes them: an integer product, then a strict sequence of operations in float32.

``qnn.conv2d`` or ``qnn.dense``, its bias and ``qnn.requantize``, perhaps with a ``qnn.add`` of another tensor behind
them, become the sequence of :func:`byoc.contrib.onednn.relay.patterns.make_qnn_pattern`. With scales s and zero
points z of the requantization (in, out) and of the addition (left, right, sum)::

    acc  = product with zero points 0, cast to float32
    act  = clip((acc + bias) * scale)            bias = given - product(zero point of the data) - z_in + z_out / scale
    out  = act * s_left / s_sum + other * s_right / s_sum + z_sum - (z_left * s_left + z_right * s_right) / s_sum

Source: ``dnnl.legalize_qnn_for_dnnl``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from byoc.contrib.endings import any_op, biased
from byoc.contrib.onednn.relay.patterns import QUANTIZED_PRODUCTS
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import Dim, TensorType
from byoc.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, rewrite, wildcard
from byoc.relay.dataflow_pattern.rewriting import NodeMap
from byoc.relay.expr import Call, Constant, const
from byoc.relay.interpreter import evaluate
from byoc.relay.narrowing import as_call, operator_of, tensor_type
from byoc.relay.op import add, cast, clip, multiply, nn
from byoc.relay.op.nn.convolution.geometry import conv_geometry
from byoc.relay.transform import FoldConstant, InferType

_RANGES = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int32": (-(2.0**31), 2.0**31 - 1)}


class LegalizeQnnOpForDnnl(DFPatternCallback):
    """One block of product, bias, requantization and addition. Source: ``dnnl.LegalizeQnnOpForDnnl``."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.data, self.weight, self.bias, self.other = wildcard(), is_constant(), is_constant(), wildcard()
        self.data_zero, self.weight_zero = is_constant(), is_constant()
        operands = (self.data, self.weight, self.data_zero, self.weight_zero, is_constant(), is_constant())
        self.product = any_op(tuple(QUANTIZED_PRODUCTS), *operands)
        self.biased = biased(self.product, self.bias)
        # scale and zero point: of the product and its result; of both sides of the addition and of its result
        self.requantized = tuple(is_constant() for _ in range(4))
        self.added = tuple(is_constant() for _ in range(6))
        self.requantize = is_op("qnn.requantize")(self.biased | self.product, *self.requantized)
        self.clip, self.last_clip = is_op("clip")(self.requantize), is_op("clip")
        act = self.clip | self.requantize
        self.cast = is_op("cast")(act)
        act = self.cast | act
        self.sum = is_op("qnn.add")(act, self.other, *self.added)
        self.pattern = self.last_clip(self.sum) | self.sum | act

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """The block in oneDNN's form; itself where that would give other numbers."""
        block = _Block(self, node_map)
        dtype = block.dtype
        if block.has_weight_zero or dtype not in _RANGES:
            return post
        bias = block.bias()
        if bias is None:
            return post
        low, high = _RANGES[dtype]
        if self.clip in node_map:
            given = as_call(node_map[self.clip][0]).attrs
            low, high = max(low, given.a_min), min(high, given.a_max)
        body = clip(multiply(add(cast(block.plain(), "float32"), const(bias)), const(block.scale)), low, high)
        if self.sum not in node_map:
            return cast(body, dtype)
        if isinstance(pre, Call) and pre.op == _CLIP and (pre.attrs.a_min, pre.attrs.a_max) != _RANGES[dtype]:
            return post  # the sequence ends with a cast, which saturates to the whole range alone
        return self._with_sum(body, node_map, dtype)

    def _with_sum(self, body: RelayExpr, node_map: NodeMap, dtype: str) -> RelayExpr:
        """The other tensor added, in the scale of the sum."""
        left, left_zero, right, right_zero, total, total_zero = (
            float(_array(node_map[part][0]).reshape(-1)[0]) for part in self.added
        )
        body = multiply(body, const(np.float32(left / total)))
        body = add(body, multiply(const(np.float32(right / total)), cast(node_map[self.other][0], "float32")))
        zero = total_zero - (left_zero * left + right_zero * right) / total
        return cast(add(body, const(np.float32(zero))), dtype)


_CLIP = clip(const(0.0), 0, 1).op


def _array(constant: RelayExpr) -> np.ndarray:
    assert isinstance(constant, Constant)
    return constant.data.numpy()


class _Block:
    """The numbers of one match."""

    def __init__(self, parts: LegalizeQnnOpForDnnl, node_map: NodeMap):
        self._parts, self._map = parts, node_map
        product = node_map[parts.product][0]
        assert isinstance(product, Call) and isinstance(product.op, Op)
        self.product = product
        self.weight = node_map[parts.weight][0]
        self.in_scale, in_zero, self.out_scale, out_zero = (
            _array(node_map[part][0]).astype("float64") for part in parts.requantized
        )
        self._in_zero, self._out_zero = in_zero, out_zero
        self.has_weight_zero = bool(_array(node_map[parts.weight_zero][0]).any())

    @property
    def dtype(self) -> str:
        """The dtype of the result: that of the cast behind the requantization, or its own."""
        last = self._parts.cast if self._parts.cast in self._map else self._parts.requantize
        attrs = as_call(self._map[last][0]).attrs
        return str(attrs.dtype if last is self._parts.cast else attrs.out_dtype)

    @property
    def scale(self) -> np.ndarray:
        """What a sum of products is multiplied by, one number or one a channel, as it broadcasts."""
        return self._along_channels(self.in_scale / self.out_scale).astype("float32")

    def bias(self) -> np.ndarray | None:
        """What is added to the sums of products, in float32; None where that is not known before the run."""
        behind = self._behind_zero()
        if behind is None:
            return None
        total = -behind - self._along_channels(self._in_zero)
        total = total + self._along_channels(self._out_zero) / self._along_channels(self.in_scale / self.out_scale)
        if self._parts.bias in self._map:
            given = _array(self._map[self._parts.bias][0]).astype("float64")
            biased = operator_of(self._map[self._parts.biased][0])
            total = total + (self._along_channels(given) if biased.name == "nn.bias_add" else given)
        return np.asarray(total, "float32")

    def _along_channels(self, numbers: np.ndarray) -> np.ndarray:
        """*numbers*, one or one a channel, in the shape in which they broadcast with the result."""
        if numbers.size == 1:
            return numbers.reshape(())
        rank, axis = len(tensor_type(self.product).shape), self._channel_axis()
        return numbers.reshape([-1 if k == axis else 1 for k in range(rank)])

    def _channel_axis(self) -> int:
        attrs = self.product.attrs
        layout = getattr(attrs, "out_layout", "") or getattr(attrs, "data_layout", "NC")
        return layout.index("C")

    def _behind_zero(self) -> np.ndarray | None:
        """The product of the data's zero point: where a window sees padding, it has fewer terms.

        So a padded product has a number for each element of one image.
        """
        zero = _array(self._map[self._parts.data_zero][0]).reshape(-1)
        if not zero.any():
            return np.zeros(())
        shape = self._one_image()
        known = [d for d in shape if isinstance(d, int)]
        if zero.size != 1 or len(known) != len(shape):
            return None
        full = const(np.full(known, zero[0], "int32"))
        made = evaluate(self._product_of(full, const(_array(self.weight).astype("int32"))))
        return np.asarray(made, "float64")

    def _one_image(self) -> list[Dim]:
        """The shape of one image of the data, without padding as small as one window."""
        attrs, types = self.product.attrs, [arg.checked_type for arg in self.product.args[:2]]
        assert isinstance(types[0], TensorType) and attrs is not None
        if operator_of(self.product).name == "qnn.dense":
            return [1, types[0].shape[-1]]
        geometry = conv_geometry(types, attrs, 2)
        window = [d * (k - 1) + 1 for d, k in zip(geometry.dilation, geometry.kernel, strict=True)]
        extents = geometry.sizes if any(attrs.padding) else tuple(window)
        of_letter = dict(zip("NCHW", (1, geometry.channels, *extents), strict=True))
        return [of_letter[letter] for letter in attrs.data_layout]

    def plain(self) -> RelayExpr:
        """The product of the stored integers, by the quantized operator with zero points 0."""
        zero = const(0)  # one node: patterns of others may read both zero points by one part
        operands = [self.product.args[0], self.weight, zero, zero, *self.product.args[4:]]
        return Call(self.product.op, operands, replace(self.product.attrs, out_dtype="int32"))

    def _product_of(self, data: RelayExpr, weight: RelayExpr) -> Call:
        attrs = self.product.attrs
        if operator_of(self.product).name == "qnn.dense":
            return nn.dense(data, weight, attrs.units, "int32")
        return nn.conv2d(
            data,
            weight,
            attrs.strides,
            attrs.padding,
            attrs.dilation,
            attrs.groups,
            attrs.channels,
            attrs.kernel_size,
            attrs.data_layout,
            attrs.kernel_layout,
            attrs.out_layout,
            "int32",
        )


def legalize_qnn_for_dnnl(mod: IRModule) -> IRModule:
    """*mod* with the quantized blocks of main in oneDNN's form. Source: ``dnnl.legalize_qnn_for_dnnl``."""
    ready = FoldConstant()(InferType()(mod)).shallow_copy()
    ready["main"] = rewrite(LegalizeQnnOpForDnnl(), ready["main"])
    return FoldConstant()(InferType()(ready))
