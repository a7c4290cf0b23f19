"""Gradients of convolutions and pools."""

from __future__ import annotations

import math

from byoc.annex.gradients.rules.rules import gradient, scalar, shape
from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call
from byoc.relay.narrowing import operator_of
from byoc.relay.op import nn
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.window import pad_tuple


@gradient("nn.conv2d")
def conv2d_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """A transposed convolution of grad, and the products of grad with what each weight saw.

    Raises UserError for layouts other than NCHW and OIHW.
    """
    (data, weight), attrs = orig.args, orig.attrs
    if attrs.data_layout != "NCHW" or attrs.kernel_layout != "OIHW":
        raise UserError(f"nn.conv2d has a gradient in NCHW and OIHW, not in {attrs.data_layout}")
    pads = pad_tuple(attrs.padding, 2)
    strides = [int(s) for s in attrs.strides]
    dilation = [int(d) for d in attrs.dilation]
    kernel = shape(weight)[2:]
    rest = [
        shape(data)[2 + k]
        - ((shape(orig)[2 + k] - 1) * strides[k] - pads[k] - pads[k + 2] + dilation[k] * (kernel[k] - 1) + 1)
        for k in range(2)
    ]
    by_data = nn.conv2d_transpose(
        grad,
        weight,
        strides=strides,
        padding=pads,
        dilation=dilation,
        groups=attrs.groups,
        output_padding=tuple(rest),
        kernel_size=kernel,
        channels=shape(data)[1],
    )
    by_weight = make_call("nn.conv2d_backward_weight", [grad, data], _weight_attrs(attrs, weight))
    return [by_data, op.reshape_like(by_weight, weight)]


def _weight_attrs(attrs: object, weight: RelayExpr) -> Attrs:
    kind = op.get("nn.conv2d_backward_weight").attrs_type
    assert kind is not None
    values = {name: getattr(attrs, name) for name in kind.__dataclass_fields__}
    values.update(kernel_size=shape(weight)[2:], channels=shape(weight)[0], out_dtype="")
    values.update(data_layout="NCHW", kernel_layout="NCHW", out_layout="OIHW")  # of grad, data and the result
    return kind(**values)


@gradient("nn.conv2d_transpose")
def conv2d_transpose_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The convolution that was transposed, of grad. Raises UserError for layouts other than NCHW and IOHW."""
    (data, weight), attrs = orig.args, orig.attrs
    if attrs.data_layout != "NCHW" or attrs.kernel_layout != "IOHW":
        raise UserError("nn.conv2d_transpose has a gradient in NCHW and IOHW only")
    same = {
        "strides": attrs.strides,
        "padding": pad_tuple(attrs.padding, 2),
        "dilation": attrs.dilation,
        "groups": attrs.groups,
        "kernel_size": shape(weight)[2:],
    }
    by_data = nn.conv2d(grad, weight, channels=shape(data)[1], **same)
    by_weight = make_call("nn.conv2d_backward_weight", [data, grad], _weight_attrs(by_data.attrs, weight))
    return [by_data, op.reshape_like(by_weight, weight)]


@gradient("nn.max_pool2d", "nn.avg_pool2d")
def pool2d_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad to the largest element of each window, or to all of them."""
    return [make_call(f"{operator_of(orig).name}_grad", [grad, orig.args[0]], orig.attrs)]


def _space(orig: Call) -> list[int]:
    layout = orig.attrs.layout
    return [layout.index("H"), layout.index("W")]


@gradient("nn.global_avg_pool2d")
def global_avg_pool2d_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad / (h * w) for every place."""
    data = orig.args[0]
    count = math.prod(shape(data)[axis] for axis in _space(orig))
    return [op.broadcast_to_like(op.divide(grad, scalar(float(count), orig)), data)]


@gradient("nn.global_max_pool2d")
def global_max_pool2d_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad to the largest places, in equal shares."""
    data = orig.args[0]
    mask = op.cast_like(op.equal(data, orig), data)
    share = op.divide(grad, op.sum(mask, axis=_space(orig), keepdims=True))
    return [op.multiply(mask, share)]
