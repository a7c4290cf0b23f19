"""Quantized blocks as oneDNN computes them: an integer product, then a strict sequence of operations in float32.

``qnn.conv2d`` or ``qnn.dense``, its bias and ``qnn.requantize`` become an integer product without zero point of the
data, a bias that makes up for that zero point, a scale, the zero point of the output, rounding, clip and cast. Source:
``dnnl.legalize_qnn_for_dnnl``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.dataflow_pattern import DFPattern, DFPatternCallback, is_constant, is_op, rewrite, wildcard
from byoc.relay.expr import Call, Constant, const
from byoc.relay.op import add, cast, clip, multiply, nn, round
from byoc.relay.transform import FoldConstant, InferType

_RANGES = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int32": (-(2.0**31), 2.0**31 - 1)}
NodeMap = Mapping[DFPattern, list[RelayExpr]]


class LegalizeQnnOpForDnnl(DFPatternCallback):
    """One block of product, bias and requantization. Source: ``dnnl.LegalizeQnnOpForDnnl``."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.data, self.weight, self.bias = wildcard(), is_constant(), is_constant()
        self.zeros = (is_constant(), is_constant())
        scales = (is_constant(), is_constant())
        operands = (self.data, self.weight, *self.zeros, *scales)
        self.product = is_op("qnn.conv2d")(*operands) | is_op("qnn.dense")(*operands)
        biased = is_op("nn.bias_add")(self.product, self.bias) | is_op("add")(self.product, self.bias)
        # input scale and zero point, output scale and zero point
        self.scales = tuple(is_constant() for _ in range(4))
        self.pattern = is_op("qnn.requantize")(biased | self.product, *self.scales)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """The block in oneDNN's form; itself where that would give other numbers."""
        data, product = node_map[self.data][0], node_map[self.product][0]
        assert isinstance(product, Call) and isinstance(post, Call)
        weight = _array(node_map[self.weight][0])
        data_zero, weight_zero = (_array(node_map[part][0]) for part in self.zeros)
        in_scale, in_zero, out_scale, out_zero = (_array(node_map[part][0]) for part in self.scales)
        layout = _layout(product)
        padded = product.op.name == "qnn.conv2d" and any(product.attrs.padding)  # type: ignore[attr-defined, union-attr]
        if layout is None or weight_zero.any() or in_zero.any() or data_zero.size != 1:
            return post
        if padded and data_zero.any():
            return post  # the border is padded with the zero point, which the bias could not make up for
        bias = -int(data_zero.reshape(-1)[0]) * weight.astype("int64").sum(axis=tuple(range(1, weight.ndim)))
        if self.bias in node_map:
            given = _array(node_map[self.bias][0])
            if given.size not in (1, len(bias)):
                return post
            bias = bias + given.reshape(-1)
        scale = np.broadcast_to((in_scale / out_scale).astype("float32").reshape(-1), bias.shape)
        return _sequence(_plain(product, data), bias, scale, int(out_zero.reshape(-1)[0]), layout, post.attrs.out_dtype)  # type: ignore[union-attr]


def _array(constant: RelayExpr) -> np.ndarray:
    assert isinstance(constant, Constant)
    return constant.data.numpy()


def _layout(product: Call) -> int | None:
    """How many axes stand behind that of the channels; None for layouts that oneDNN does not take."""
    if product.op.name == "qnn.dense":  # type: ignore[attr-defined]
        return 0
    attrs = product.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "NCHW")  # type: ignore[union-attr]
    return 2 if layouts == ("NCHW", "OIHW", "NCHW") else None


def _plain(product: Call, data: RelayExpr) -> Call:
    """The product of the stored integers, in int32."""
    attrs, weight = product.attrs, product.args[1]
    if product.op.name == "qnn.dense":  # type: ignore[attr-defined]
        return nn.dense(data, weight, attrs.units, "int32")  # type: ignore[union-attr]
    return nn.conv2d(
        data, weight, attrs.strides, attrs.padding, attrs.dilation, attrs.groups, attrs.channels, attrs.kernel_size,  # type: ignore[union-attr]
        out_dtype="int32",
    )


def _sequence(
    product: Call, bias: np.ndarray, scale: np.ndarray, zero: int, behind: int, dtype: str
) -> RelayExpr:
    """cast, bias, scale, zero point, round, clip, cast."""
    shape = (len(bias), *(1,) * behind)
    body: RelayExpr = add(product, const(bias.astype("int32").reshape(shape)))
    body = multiply(cast(body, "float32"), const(np.asarray(scale, order="C").reshape(shape)))
    body = round(add(body, const(float(zero))))
    return cast(clip(body, *_RANGES[dtype]), dtype)


def legalize_qnn_for_dnnl(mod: IRModule) -> IRModule:
    """*mod* with the quantized blocks of main in oneDNN's form. Source: ``dnnl.legalize_qnn_for_dnnl``."""
    ready = FoldConstant()(InferType()(mod)).shallow_copy()
    ready["main"] = rewrite(LegalizeQnnOpForDnnl(), ready["main"])  # type: ignore[arg-type]
    return InferType()(ready)
