"""Lowering of ``qnn.conv2d`` and ``qnn.conv2d_transpose``: a convolution of the stored integers and three corrections.

With zero points za and zb over a window of data a and a kernel b:
``sum (a - za) (b - zb) = sum a b - zb sum a - za sum b + za zb K``. Padding is made with za first, so that it means
zero. Where the second term is no pool (dilated or grouped kernels) the zero points are taken off before the convolution
instead. Source: ``relay/qnn/op/{convolution,convolution_transpose}.cc``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.expr import constant
from byoc.relay.op.attributes.convolution import Conv2DAttrs, Conv2DTransposeAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.nn.convolution.geometry import Geometry, conv_geometry
from byoc.relay.qnn.lowering.matrix_products import combined
from byoc.relay.qnn.lowering.parameters import cast, difference_dtype, is_zero, less_zero, scalar, spread
from byoc.relay.qnn.op.op import register_qnn_canonicalize
from byoc.relay.qnn.op.type_relations import is_scalar

INT32 = "int32"


class _Convolution:
    """One ``qnn.conv2d`` on its way to plain operators."""

    def __init__(self, attrs: Conv2DAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]):
        self.attrs, self.inputs, self.types = attrs, inputs, types
        self.geometry: Geometry = conv_geometry(types, attrs, 2)
        self.data, self.weight = tensor_arg(types, 0), tensor_arg(types, 1)
        assert isinstance(self.data, TensorType) and isinstance(self.weight, TensorType)
        self.free_input, self.free_kernel = is_zero(inputs[2]), is_zero(inputs[3])
        self.layout = attrs.out_layout or attrs.data_layout

    def lowered(self) -> RelayExpr:
        """The plain expression."""
        if self.free_input and self.free_kernel:
            return make_call("nn.conv2d", self.inputs[:2], self.attrs)
        grouped = self.attrs.groups > 1 and not self.geometry.is_depthwise
        dilated = any(d != 1 for d in self.geometry.dilation) and not self.free_kernel
        return self.shifted() if grouped or dilated else self.expanded()

    def shifted(self) -> RelayExpr:
        """The convolution of both factors less their zero points, as int16 where that holds them."""
        wide = difference_dtype(self.data, self.inputs[2:4])
        data = less_zero(cast(self.inputs[0], self.data.dtype, wide), self.inputs[2], self.types[2], 0, 4, wide)
        weight = cast(self.inputs[1], self.weight.dtype, wide)
        if not self.free_kernel:
            weight = relay.subtract(weight, self._kernel_zero_as_weight(wide))
        return make_call("nn.conv2d", [data, weight], self.attrs)

    def expanded(self) -> RelayExpr:
        """Four terms, of which those with a zero point of 0 are left out."""
        data, attrs = self._padded()
        terms: list[RelayExpr | None] = [make_call("nn.conv2d", [data, self.inputs[1]], attrs), None, None, None]
        if not self.free_kernel:
            terms[1] = relay.multiply(self._window_sums(data), self._kernel_zero(INT32))
        if not self.free_input:
            input_zero = scalar(self.inputs[2], self.types[2], INT32)
            terms[2] = relay.multiply(self._kernel_sums(), input_zero)
            if not self.free_kernel:
                size = self.geometry.reduced * math.prod(self.geometry.kernel)
                terms[3] = relay.multiply(relay.multiply(input_zero, self._kernel_zero(INT32)), constant(size, INT32))
        out = self.attrs.out_dtype
        return combined([terms[0], *(t if t is None else cast(t, INT32, out) for t in terms[1:])])

    def _padded(self) -> tuple[RelayExpr, Conv2DAttrs]:
        """The data with padding of the input's zero point, and the attributes without padding."""
        if not any(map(any, self.geometry.pads)):
            return self.inputs[0], self.attrs
        pads = dict(zip("HW", self.geometry.pads, strict=True))
        width = [pads.get(letter, (0, 0)) for letter in self.attrs.data_layout]
        value = scalar(self.inputs[2], self.types[2], self.data.dtype)
        return relay.nn.pad(self.inputs[0], width, value), replace(self.attrs, padding=(0, 0, 0, 0))

    def _window_sums(self, data: RelayExpr) -> RelayExpr:
        """The sum of the data over each window and, but for a depthwise kernel, over the channels.

        The pool's mean is exact, since each number is multiplied with the size of the window first.
        """
        area = math.prod(self.geometry.kernel)
        sums = cast(data, self.data.dtype, INT32)
        if area > 1 or any(s != 1 for s in self.geometry.strides):
            scaled = relay.multiply(sums, constant(area, INT32)) if area > 1 else sums
            sums = relay.nn.avg_pool2d(
                scaled,
                self.geometry.kernel,
                self.geometry.strides,
                layout=self.attrs.data_layout,
                out_layout=self.layout,
            )
        elif self.layout != self.attrs.data_layout:
            sums = relay.transpose(sums, [self.attrs.data_layout.index(letter) for letter in self.layout])
        channel = self.layout.index("C")
        if not self.geometry.is_depthwise:
            return relay.sum(sums, axis=channel, keepdims=True)
        each = self.geometry.out // self.geometry.groups
        return relay.repeat(sums, each, channel) if each > 1 else sums

    def _kernel_sums(self) -> RelayExpr:
        """The sum of the kernel of each output channel, along the channels of the result."""
        layout = self.attrs.kernel_layout
        kept = "OI" if self.geometry.multiplier else "O"
        axes = [k for k, letter in enumerate(layout) if letter not in kept]
        sums = relay.sum(cast(self.inputs[1], self.weight.dtype, INT32), axis=axes)
        if self.geometry.multiplier and layout.index("I") < layout.index("O"):
            sums = relay.transpose(sums, (1, 0))
        return relay.reshape(sums, [-1 if letter == "C" else 1 for letter in self.layout])

    def _kernel_zero(self, dtype: str) -> RelayExpr:
        return spread(self.inputs[3], self.types[3], self.layout.index("C"), 4, dtype)

    def _kernel_zero_as_weight(self, dtype: str) -> RelayExpr:
        """The kernel's zero points shaped as its output channels lie in the kernel."""
        layout, zero = self.attrs.kernel_layout, spread(self.inputs[3], self.types[3], 0, 1, dtype)
        ty = self.types[3]
        assert isinstance(ty, TensorType)
        if all(d == 1 for d in ty.shape):
            return zero
        sizes = {"O": self.geometry.out}
        if self.geometry.multiplier:
            sizes = {"O": self.geometry.groups, "I": self.geometry.multiplier}
            if layout.index("I") < layout.index("O"):
                zero = relay.transpose(relay.reshape(zero, tuple(sizes.values())), (1, 0))
        return relay.reshape(zero, [sizes.get(letter, 1) for letter in layout])


def shifted_conv2d(attrs: Conv2DAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.conv2d`` as ``nn.conv2d`` of both factors less their zero points, whatever these are."""
    return _Convolution(attrs, inputs, types).shifted()


@register_qnn_canonicalize("qnn.conv2d")
def lower_conv2d(attrs: Conv2DAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.conv2d`` as ``nn.conv2d`` and corrections."""
    return _Convolution(attrs, inputs, types).lowered()


@register_qnn_canonicalize("qnn.conv2d_transpose")
def lower_conv2d_transpose(
    attrs: Conv2DTransposeAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]
) -> RelayExpr | None:
    """``qnn.conv2d_transpose`` as ``nn.conv2d_transpose`` of both factors less their zero points.

    None where each group has zero points of its own.
    """
    data, weight, zero = types[0], types[1], types[3]
    assert isinstance(data, TensorType) and isinstance(weight, TensorType) and isinstance(zero, TensorType)
    if is_zero(inputs[2]) and is_zero(inputs[3]):
        return make_call("nn.conv2d_transpose", inputs[:2], attrs)
    if attrs.groups > 1 and not is_scalar(zero):
        return None
    wide = difference_dtype(data, inputs[2:4])
    shifted = less_zero(cast(inputs[0], data.dtype, wide), inputs[2], types[2], 0, 4, wide)
    axis = attrs.kernel_layout.index("O")
    kernel = less_zero(cast(inputs[1], weight.dtype, wide), inputs[3], zero, axis, 4, wide)
    return make_call("nn.conv2d_transpose", [shifted, kernel], attrs)
