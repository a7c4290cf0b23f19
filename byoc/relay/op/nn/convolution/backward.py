"""``nn.conv2d_backward_weight``: the gradient of a convolution with respect to its kernel. Source: ``relay.nn``.

The attributes are those of ``nn.conv2d``: ``data_layout`` is that of the gradient of the output, ``kernel_layout`` that
of the data, and ``out_layout`` that of the kernel, as Relay has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, ProductForm, Traits, same_kernels
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import Conv2DAttrs
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.window import arranged, axes_of, differ, pad_pairs, tensor_of, window_extent


def _relation(types: Sequence[Type], attrs: Conv2DAttrs) -> Type:
    grad, data = tensor_of(types[0], 4, "grad"), tensor_of(types[1], 4, "data")
    if attrs.kernel_size is None:
        raise TypeInferenceError("kernel_size must be given")
    g = [grad.shape[a] for a in axes_of(attrs.data_layout, "NCHW", "grad")]
    x = [data.shape[a] for a in axes_of(attrs.kernel_layout, "NCHW", "data")]
    out, channels = g[1] if attrs.channels is None else attrs.channels, x[1]
    if isinstance(channels, Any) or isinstance(out, Any) or channels % attrs.groups or out % attrs.groups:
        raise TypeInferenceError(f"{channels} and {out} channels cannot be divided into {attrs.groups} groups")
    steps = zip(x[2:], attrs.kernel_size, attrs.strides, attrs.dilation, pad_pairs(attrs.padding, 2), strict=True)
    expected = (x[0], out, *(window_extent(*step) for step in steps))
    if any(differ(a, b) for a, b in zip(g, expected, strict=True)):
        raise TypeInferenceError(f"grad must have the sizes N, C, H, W {expected} of the convolution, got {grad}")
    dims = (out, channels // attrs.groups, *attrs.kernel_size)
    return TensorType(arranged(dims, "OIHW", attrs.out_layout), attrs.out_dtype or grad.dtype)


register_op(
    "nn.conv2d_backward_weight",
    inputs=("grad", "data"),
    attrs=Conv2DAttrs,
    rel=_relation,
    pattern=OpPattern.OPAQUE,
    traits=Traits(
        OpKind.PRODUCT,
        product=ProductForm.OTHER,
        any_layout=True,
        kernel_layouts=same_kernels({"NCHW": "OIHW", "NHWC": "HWIO"}),
    ),
    doc="The gradient of a convolution's kernel, from that of its output and the data.",
    samples=(
        Sample(
            [(2, 3, 5, 6), (2, 4, 5, 6)],
            {"kernel_size": (3, 3), "padding": (1, 1, 1, 1), "kernel_layout": "NCHW", "out_layout": "OIHW"},
        ),
        Sample(
            [(1, 2, 3, 4), (1, 6, 7, 2)],
            {
                "kernel_size": (3, 2),
                "strides": (2, 2),
                "groups": 2,
                "channels": 4,
                "kernel_layout": "NHWC",
                "data_layout": "NHWC",
                "out_layout": "HWIO",
            },
        ),
    ),
).set_support_level(2)


@dataclass(eq=False, repr=False)
class BackwardWeightArguments(WindowArguments):
    """Arguments of ``conv2d_backward_weight``."""

    AXES = 2
    grad: RelayExpr
    data: RelayExpr
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: Ints | None = None
    grad_layout: str = "NCHW"
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_dtype: str = ""


@takes_fields_of(BackwardWeightArguments)
def conv2d_backward_weight(given: BackwardWeightArguments) -> Call:
    """The gradient of the kernel, in *kernel_layout*. Source: ``relay.nn.conv2d_backward_weight``."""
    attrs = given.attrs(
        Conv2DAttrs,
        data_layout=given.grad_layout,
        kernel_layout=given.data_layout,
        out_layout=given.kernel_layout,
    )
    return make_call("nn.conv2d_backward_weight", [given.grad, given.data], attrs)
