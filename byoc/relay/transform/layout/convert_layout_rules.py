"""What ConvertLayout makes of each operator (``FTVMConvertOpLayout``, at level 10), and what users give and return.

A rule gets the attributes, the inputs, their types and the layouts asked for (strings, ``default`` for a choice by the
first of them), and returns another call or None. Source: ``convert_op_layout`` of ``python/tvm/relay/op``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.layout import Layout
from byoc.ir.op import Op, declare_op_attr, for_each_operator, get_op
from byoc.ir.types import Any, Dim, TensorType
from byoc.relay.expr import Call
from byoc.relay.transform.base.call_rules import ByOperator

# LayoutConfig: which convolutions ConvertLayout leaves as they are. Source: ``relay.transform.LayoutConfig``.


class LayoutConfig:
    """Skips the convolutions whose numbers, in the order in which they are asked, are in *skip_layers*.

    Used as ``with LayoutConfig(skip_layers=[0]): …``.
    """

    current: ClassVar[LayoutConfig | None] = None

    def __init__(self, skip_layers: Iterable[int] | None = None):
        self.skip_counter = 0
        self.skip_layers: list[int] = list(skip_layers or ())
        self._outer: LayoutConfig | None = None

    def check_skip(self) -> bool:
        """True when the convolution that asks now is to be skipped; counts it."""
        skip = self.skip_counter in self.skip_layers
        self.skip_counter += 1
        return skip

    def reset(self) -> None:
        """Count from 0 again, skipping nothing."""
        self.skip_counter, self.skip_layers = 0, []

    def __enter__(self) -> LayoutConfig:
        self._outer, LayoutConfig.current = LayoutConfig.current, self
        return self

    def __exit__(self, *exc: object) -> None:
        LayoutConfig.current = self._outer


ConvertRule = Callable[[Attrs, Sequence[RelayExpr], Sequence[TensorType], Sequence[str]], "Call | None"]
_TILED = re.compile(r"NCHW(\d+)c")
# what stands for a convolution in blocks of channels
_TILED_OPERATORS = {"nn.conv2d": "nn.contrib_conv2d_NCHWc"}


def _dim(ty: TensorType, layout: str, letter: str) -> Dim:
    """The size of *letter* in a tensor of *layout*, its blocks included."""
    parts = [(part, size) for part, size in zip(Layout(layout).parts, ty.shape, strict=True) if part.letter == letter]
    sizes = [size for _, size in parts]
    return Any() if any(isinstance(s, Any) for s in sizes) else math.prod(map(int, sizes))


def is_depthwise(attrs: Attrs, types: Sequence[TensorType]) -> bool:
    """True where each group sees one input channel: as many groups as channels, and as the kernel has outputs.

    Source: ``is_depthwise_conv2d``.
    """
    channels = _dim(types[0], str(attrs["data_layout"]), "C")
    kernel, layout = types[1], str(attrs["kernel_layout"])
    outputs, inputs = (_dim(kernel, layout, letter) for letter in "OI")
    groups = attrs["groups"]
    return groups != 1 and channels == groups and (outputs == groups or inputs == groups)


def _call(name: str, inputs: Sequence[RelayExpr], attrs: Attrs, **changed: object) -> Call:
    return Call(get_op(name), inputs, replace(attrs, **changed))


def _asked(name: str, desired: Sequence[str], count: int) -> list[str]:
    if len(desired) != count:
        raise UserError(f"ConvertLayout: {name} needs {count} layouts, got {len(desired)}: {list(desired)}")
    if desired[0] == "default":
        raise UserError(f"ConvertLayout: {name}: the data layout cannot be 'default'; say one, such as 'NCHW'")
    return [str(layout) for layout in desired]


def _kernel_layout(
    name: str, attrs: Attrs, types: Sequence[TensorType], data: str, kernels: Mapping[str, tuple[str, str]]
) -> str:
    """The kernel layout that goes with a data layout; *kernels* has one for plain and one for depthwise."""
    if data not in kernels:
        raise UserError(f"ConvertLayout: {name}: layout {data} has no default kernel layout; say one beside it")
    plain, depthwise = kernels[data]
    return depthwise if plain != depthwise and is_depthwise(attrs, types) else plain


def _divides(layout: Layout, letter: str, size: Dim) -> bool:
    return isinstance(size, Any) or size % max(layout.factor_of(letter), 1) == 0


def _tiled(name: str, attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[TensorType], asked: list[str]) -> Call:
    """A convolution in blocks of channels; as it is where they do not divide, which Relay asks of variables alone.

    Source: ``convert_conv2d``, for ``NCHW<k>c``.
    """
    data, kernel = asked
    if kernel == "default":
        raise UserError(f"ConvertLayout: {name}: with {data} the kernel layout cannot be 'default'")
    blocks, kernel_blocks, kernel_layout = Layout(data), Layout(kernel), str(attrs["kernel_layout"])
    outputs, taken = (_dim(types[1], kernel_layout, letter) for letter in "OI")
    fits = (
        _divides(blocks, "C", _dim(types[0], str(attrs["data_layout"]), "C"))
        and _divides(blocks, "C", outputs)
        and _divides(kernel_blocks, "O", outputs)
        and _divides(kernel_blocks, "I", taken)
    )
    if not fits:
        return _call(name, inputs, attrs)
    return _call(_TILED_OPERATORS.get(name, name), inputs, attrs, data_layout=data, kernel_layout=kernel)


def convolution(name: str, kernels: Mapping[str, tuple[str, str]], may_skip: bool = False) -> ConvertRule:
    """The rule of a convolution: *kernels* has for each data layout the kernel layouts, plain and depthwise."""

    def rule(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[TensorType], desired: Sequence[str]) -> Call:
        if may_skip and LayoutConfig.current is not None and LayoutConfig.current.check_skip():
            return _call(name, inputs, attrs)
        asked = _asked(name, desired, 2)
        if _TILED.fullmatch(asked[0]):
            return _tiled(name, attrs, inputs, types, asked)
        if asked[1] == "default":
            asked[1] = _kernel_layout(name, attrs, types, asked[0], kernels)
        return _call(name, inputs, attrs, data_layout=asked[0], kernel_layout=asked[1])

    return rule


def pool(name: str) -> ConvertRule:
    """The rule of a pool, which is given its input and its output layout."""

    def rule(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[TensorType], desired: Sequence[str]) -> Call:
        layout = _asked(name, desired, 1)[0]
        return _call(name, inputs, attrs, layout=layout, out_layout=layout)

    return rule


def window(name: str, count: int = 1) -> ConvertRule:
    """The rule of an operator with one layout attribute; of *count* layouts the others must be ``default``."""

    def rule(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[TensorType], desired: Sequence[str]) -> Call:
        asked = _asked(name, desired, count)
        if any(layout != "default" for layout in asked[1:]):
            raise UserError(f"ConvertLayout: {name}: only its data has a layout, the others must be 'default'")
        return _call(name, inputs, attrs, layout=asked[0])

    return rule


def _backward_weight(
    attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[TensorType], desired: Sequence[str]
) -> Call:
    """The gradient and the data in the first layout asked for, the gradient of the kernel in the second."""
    name = "nn.conv2d_backward_weight"
    data, kernel = _asked(name, desired, 2)
    if kernel == "default":
        kernel = _kernel_layout(name, attrs, types, data, get_op(name).traits.kernel_layouts)
    return _call(name, inputs, attrs, data_layout=data, kernel_layout=data, out_layout=kernel)


def _rule_of(op: Op) -> ConvertRule:
    """The rule of an operator whose layouts may be chosen, by which attributes name them."""
    names = () if op.attrs_type is None else op.attrs_type.__dataclass_fields__
    if op.traits.kernel_layouts:
        return convolution(op.name, op.traits.kernel_layouts, may_skip=op.name == "nn.conv2d")
    return pool(op.name) if "out_layout" in names else window(op.name, op.num_inputs)


_OWN_RULES: dict[str, ConvertRule] = {"nn.conv2d_backward_weight": _backward_weight}


def _declared_rule(op: Op) -> ConvertRule | None:
    return _OWN_RULES.get(op.name) or _rule_of(op) if op.traits.any_layout else None


CONVERT_RULES: Mapping[str, ConvertRule] = ByOperator(_declared_rule)


def _declare(op: Op) -> None:
    rule = CONVERT_RULES.get(op.name)
    if rule is not None:
        declare_op_attr(op, "FTVMConvertOpLayout", rule)


for_each_operator(_declare)


# What a user's layout rule returns. Source: ``tvm.relay.transform.infer_layout_utils``.


def as_layout(layout: Layout | str | None) -> Layout:
    """*layout* as an object; None is an undefined one. Raises UserError for a word that is no layout."""
    if layout is None:
        return Layout()
    return layout if isinstance(layout, Layout) else Layout(str(layout))


class InferCorrectLayoutOutput:
    """The layouts of a call's inputs (tuples flattened) and results, and its attributes under them.

    A function ``f(attrs, new_in_layouts, old_in_layouts, old_in_types)`` that ``register_infer_correct_layout`` keeps
    returns one. Source: ``InferCorrectLayoutOutput``.
    """

    __slots__ = ("input_layouts", "new_attrs", "output_layouts")

    def __init__(
        self,
        input_layouts: Iterable[Layout | str | None],
        output_layouts: Iterable[Layout | str | None],
        new_attrs: Attrs | None,
    ):
        self.input_layouts = [as_layout(x) for x in input_layouts]
        self.output_layouts = [as_layout(x) for x in output_layouts]
        self.new_attrs = new_attrs


__all__ = ["InferCorrectLayoutOutput", "as_layout"]
