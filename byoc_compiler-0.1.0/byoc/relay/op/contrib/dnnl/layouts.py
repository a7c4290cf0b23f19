"""Layouts that oneDNN prefers, as rules of Legalize and AlterOpLayout. Source: ``relay.op.contrib.dnnl``.

A rule is put on an operator for the time of a pass: ``TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", alter_conv)``. Which
layout is best only oneDNN knows: it is asked by the global function that its integration registers, and without
one a convolution stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import get_op
from byoc.ir.registry import get_global_func
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call

_CONVOLUTIONS = {
    "Conv1DAttrs": "nn.conv1d", "Conv2DAttrs": "nn.conv2d", "Conv3DAttrs": "nn.conv3d",
    "Conv2DTransposeAttrs": "nn.conv2d_transpose", "Conv3DTransposeAttrs": "nn.conv3d_transpose",
}


def _again(attrs: Attrs, inputs: Sequence[RelayExpr]) -> Call:
    return Call(get_op(_CONVOLUTIONS[type(attrs).__name__]), inputs, attrs)


def legalize_group_conv(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """The convolution as it is: byoc's convolutions take the weights of all groups in one axis, OIHW or IOHW.

    In TVM the groups become an axis of their own (GOIHW), for which there is no convolution here.
    """
    return _again(attrs, inputs)


def alter_conv(attrs: Attrs, inputs: Sequence[RelayExpr], tinfos: Sequence[Type], out_type: Type) -> RelayExpr:
    """The convolution in the layouts that oneDNN names, where it can be asked. Source: ``dnnl.alter_conv``."""
    ask = get_global_func("relay._ffi_api.get_optimal_layout_for_conv", allow_missing=True)
    return _altered(ask, attrs, inputs, tinfos, out_type, ())


def alter_conv_transpose(
    attrs: Attrs, inputs: Sequence[RelayExpr], tinfos: Sequence[Type], out_type: Type
) -> RelayExpr:
    """The transposed convolution in the layouts that oneDNN names. Source: ``dnnl.alter_conv_transpose``."""
    ask = get_global_func("relay._ffi_api.get_optimal_layout_for_conv_transpose", allow_missing=True)
    return _altered(ask, attrs, inputs, tinfos, out_type, ("output_padding",))


def _altered(
    ask: Callable[..., object] | None,
    attrs: Attrs,
    inputs: Sequence[RelayExpr],
    tinfos: Sequence[Type],
    out_type: Type,
    extra: tuple[str, ...],
) -> RelayExpr:
    """oneDNN is told layouts, shapes and sizes as texts of numbers between commas, and names three layouts so."""
    if ask is None:
        return _again(attrs, inputs)
    weight = tinfos[1]
    assert isinstance(weight, TensorType) and isinstance(out_type, TensorType)
    sizes = ("padding", *extra, "strides", "dilation")
    answer = ask(
        attrs["data_layout"], attrs["kernel_layout"], _joined(weight.shape), _joined(out_type.shape),
        *(_joined(attrs[name]) for name in sizes), str(attrs["groups"]), weight.dtype,  # type: ignore[arg-type]
    )
    data_layout, kernel_layout, out_layout = str(answer).split(",")
    changed = replace(attrs, data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout)  # type: ignore[call-arg]
    return _again(changed, inputs)


def _joined(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers))
