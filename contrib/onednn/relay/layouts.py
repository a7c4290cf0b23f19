"""Layouts that oneDNN prefers, as rules of Legalize and AlterOpLayout. Source: ``relay.op.contrib.dnnl``.

A rule is put on an operator for the time of a pass: ``TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", alter_conv)``. Which
layout is best is asked of the global functions ``relay._ffi_api.get_optimal_layout_for_conv`` and
``…_conv_transpose``, which answer in oneDNN's letters: ``a``, ``b``, … are the axes in their plain order, a capital is
an axis that is split, a number its block (``aBcd16b``). byoc's own answer is the plain order: its code generators
choose layouts themselves. An integration of oneDNN that has the library registers its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from byoc.errors import UserError
from byoc.ir.attrs import Attrs, as_ints
from byoc.ir.expr import RelayExpr
from byoc.ir.op import get_op
from byoc.ir.registry import get_global_func
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op import reshape
from byoc.relay.op.core.window import data_letters, kernel_letters

_CONVOLUTIONS = {
    "Conv1DAttrs": "nn.conv1d",
    "Conv2DAttrs": "nn.conv2d",
    "Conv3DAttrs": "nn.conv3d",
    "Conv1DTransposeAttrs": "nn.conv1d_transpose",
    "Conv2DTransposeAttrs": "nn.conv2d_transpose",
    "Conv3DTransposeAttrs": "nn.conv3d_transpose",
}
LETTERS = "abcdefghijkl"


def _again(attrs: Attrs, inputs: Sequence[RelayExpr]) -> Call:
    return Call(get_op(_CONVOLUTIONS[type(attrs).__name__]), inputs, attrs)


def _is_transposed(attrs: Attrs) -> bool:
    return "Transpose" in type(attrs).__name__


def legalize_group_conv(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """A grouped convolution with the groups of its kernel as an axis: ``OIHW`` to ``GOIHW``, ``IOHW`` to ``GIOHW``.

    Another kernel layout, and a convolution without groups, stays. Source: ``dnnl.legalize_group_conv``.
    """
    groups, layout = attrs.get_int("groups"), attrs["kernel_layout"]
    weight = types[1]
    plain = kernel_letters(2)
    if _is_transposed(attrs):
        plain = plain[1] + plain[0] + plain[2:]
    if groups == 1 or layout != plain or not isinstance(weight, TensorType) or not weight.is_static:
        return _again(attrs, inputs)
    along, *rest = weight.concrete_shape
    split = reshape(inputs[1], (groups, along // groups, *rest))
    return _again(replace(attrs, **{"kernel_layout": f"G{layout}"}), [inputs[0], split])


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
    """oneDNN takes layouts, shapes and sizes as texts of numbers between commas, and names three layouts."""
    if ask is None:
        return _again(attrs, inputs)
    weight = tinfos[1]
    assert isinstance(weight, TensorType) and isinstance(out_type, TensorType)
    sizes = ("padding", *extra, "strides", "dilation")
    answer = ask(
        attrs["data_layout"],
        attrs["kernel_layout"],
        _joined(weight.shape),
        _joined(out_type.shape),
        *(_joined(as_ints(attrs[name])) for name in sizes),
        str(attrs["groups"]),
        weight.dtype,
    )
    n = len(out_type.shape) - 2
    kernel = kernel_letters(n)
    if _is_transposed(attrs):
        kernel = kernel[1] + kernel[0] + kernel[2:]
    if "G" in str(attrs["kernel_layout"]):
        kernel = f"G{kernel}"
    data_layout, kernel_layout, out_layout = (
        in_letters_of(layout, plain)
        for layout, plain in zip(str(answer).split(","), (data_letters(n), kernel, data_letters(n)), strict=True)
    )
    if (data_layout, kernel_layout, out_layout) == (
        attrs["data_layout"],
        attrs["kernel_layout"],
        attrs["out_layout"] or attrs["data_layout"],
    ):
        return _again(attrs, inputs)
    make: Callable[..., Attrs] = type(attrs)
    found = {"data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": out_layout}
    return _again(make(**{**attrs.as_dict(), **found}), inputs)


def in_letters_of(layout: str, plain: str) -> str:
    """oneDNN's *layout* (``aBcd8b``) in the letters of the *plain* one (``NCHW8c``). Source: ``dnnl.tag2layout``.

    Raises UserError for a letter that is no axis of *plain*.
    """
    names = dict(zip(LETTERS, plain, strict=False))
    split = {letter.lower() for letter in layout if letter.isupper()}
    made, seen = "", set()
    for letter in layout:
        axis = letter.lower()
        if letter.isdigit():
            made += letter
            continue
        if axis not in names:
            raise UserError(f"a layout of {len(plain)} axes has the letters {LETTERS[: len(plain)]}, got {layout!r}")
        made += names[axis].lower() if axis in split and axis in seen else names[axis]
        seen.add(axis)
    return made


def plain_layouts(data_layout: str, kernel_layout: str, weight_shape: str, out_shape: str, *sizes: str) -> str:
    """What is asked of oneDNN, answered for byoc: each tensor in the plain order of its axes.

    Shapes are texts of numbers between commas; *sizes* are padding, strides, dilation, groups and dtype. Source:
    ``relay._ffi_api.get_optimal_layout_for_conv``.
    """
    plain, kernel = (LETTERS[: len(shape.split(","))] for shape in (out_shape, weight_shape))
    return f"{plain},{kernel},{plain}"


def _joined(numbers: Iterable[object]) -> str:
    return ",".join(map(str, numbers))
