"""The layout rule of each operator, by what it is or by a table, as its attribute ``FInferCorrectLayout``.

Ours stand at level 10: what a user registers at that level or above takes their place, what stands below does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.attrs import Attrs
from byoc.ir.layout import Layout
from byoc.ir.op import Op, OpPattern, declare_op_attr, for_each_operator
from byoc.ir.traits import LayoutFlow, OpKind, ProductForm
from byoc.ir.types import Type
from byoc.relay.transform.layout import inference as base
from byoc.relay.transform.layout import inference_axes as axes
from byoc.relay.transform.layout import inference_windows as windows
from byoc.relay.transform.layout.convert_layout_rules import InferCorrectLayoutOutput, as_layout
from byoc.relay.transform.layout.inference import UNDEFINED, CorrectLayouts, LayoutCase, LayoutRule

_CONV = windows.convolution("data_layout", "kernel_layout")

# rules about single operators; what the others do follows from their traits
LAYOUT_RULES: dict[str, LayoutRule] = {
    "cast_like": base.like_the_second,
    "nn.dropout": base.elementwise_pair,
    "nn.deformable_conv2d": windows.convolution("data_layout", "data_layout", "kernel_layout"),
    "nn.correlation": windows.own_layout,
    "nn.matmul": windows.dense,
    "nn.contrib_dense_pack": windows.packed_dense,
    "layout_transform": windows.transformed,
    "split": axes.split,
    "transpose": axes.transpose,
    "squeeze": axes.squeeze,
    "strided_slice": axes.strided_slice,
    "slice_like": axes.slice_like,
    "take": axes.take,
    "topk": axes.topk,
    "nn.pad": axes.pad,
    "nn.bias_add": axes.bias_add,
    "nn.batch_norm": axes.batch_norm,
    "nn.layer_norm": axes.layer_norm,
    "nn.prelu": axes.prelu,
    "nn.lrn": axes.moved_axis,
    "nn.l2_normalize": axes.moved_axes,
    "qnn.avg_pool2d": windows.quantized_pool,
}

_BY_FLOW: dict[LayoutFlow, LayoutRule] = {
    LayoutFlow.UPSAMPLED: windows.upsampling,
    LayoutFlow.RESIZED: windows.resize,
    LayoutFlow.REGIONS: windows.regions,
    LayoutFlow.SCALED: windows.quantization,
    LayoutFlow.JOINED: axes.concatenate,
}


def _rule_of_traits(op: Op) -> LayoutRule | None:
    """The rule that follows from what *op* is, and from which layouts its attributes name; None where none does."""
    traits, pattern = op.traits, op.pattern
    names = () if op.attrs_type is None else op.attrs_type.__dataclass_fields__
    if traits.layout_flow is not None:
        return _BY_FLOW[traits.layout_flow]
    if traits.is_pointwise and pattern == OpPattern.BROADCAST:
        return base.broadcast if op.num_inputs == 2 else None
    made_like = traits.kind is OpKind.CREATION and pattern == OpPattern.ELEMWISE and "shape" not in names
    if (traits.is_pointwise or made_like) and op.num_inputs:
        return base.elementwise
    if traits.quantized and pattern == OpPattern.BROADCAST:
        return base.quantized_broadcast
    if traits.product is ProductForm.DENSE or (traits.product is ProductForm.PACKED_DENSE and traits.quantized):
        return windows.dense
    if traits.kind is OpKind.ROWS and not traits.quantized:
        return axes.moved_axis
    if traits.kind is OpKind.NORM and op.num_inputs > 1:
        return axes.normalization
    if traits.kind is OpKind.REDUCTION and traits.names_axes:
        return axes.argument_reduce if traits.ranks else axes.reduce
    if traits.kind in (OpKind.PRODUCT, OpKind.WINDOW) and "data_layout" in names and "kernel_layout" in names:
        return _CONV
    if traits.kind is OpKind.WINDOW and "layout" in names and "out_layout" in names:
        return windows.pool
    return None


class DeclaredLayoutRule:
    """A rule of ours as the value of ``FInferCorrectLayout``, to be asked as Relay's are."""

    __slots__ = ("rule",)

    def __init__(self, rule: LayoutRule):
        self.rule = rule

    def __call__(
        self,
        attrs: Attrs | None,
        new_in_layouts: Sequence[Layout | str] | None,
        old_in_layouts: Sequence[Layout | str | None],
        old_in_types: Sequence[Type],
    ) -> InferCorrectLayoutOutput:
        """The layouts that a call wants and gives; undefined ones where the rule cannot decide."""
        old = tuple(map(as_layout, old_in_layouts))
        new = tuple(map(as_layout, new_in_layouts)) if new_in_layouts else None
        found = self.rule(LayoutCase(attrs, new, old, tuple(old_in_types)))
        if found is None:
            return InferCorrectLayoutOutput([UNDEFINED], [UNDEFINED], attrs)
        return InferCorrectLayoutOutput(found.inputs, found.outputs, found.attrs)


def _registered(infer: Callable[..., InferCorrectLayoutOutput | CorrectLayouts | None]) -> LayoutRule:
    """A user's function ``(attrs, new_in_layouts, old_in_layouts, old_in_types)`` as a rule."""

    def rule(case: LayoutCase) -> CorrectLayouts | None:
        found = infer(case.attrs, case.new and list(case.new), list(case.old), list(case.types))
        if found is None or isinstance(found, CorrectLayouts):
            return found
        inputs, outputs = (tuple(map(as_layout, x)) for x in (found.input_layouts, found.output_layouts))
        return CorrectLayouts(inputs, outputs, found.new_attrs)

    return rule


def layout_rule(op: Op) -> LayoutRule | None:
    """The rule of *op*; None for an operator whose inputs must be brought back to what they were."""
    found = op.get_attr("FInferCorrectLayout")
    if isinstance(found, DeclaredLayoutRule):
        return found.rule
    return _registered(found) if callable(found) else _rule_of_traits(op)


def _declare(op: Op) -> None:
    rule = LAYOUT_RULES.get(op.name) or _rule_of_traits(op)
    if rule is not None:
        declare_op_attr(op, "FInferCorrectLayout", DeclaredLayoutRule(rule))


for_each_operator(_declare)  # so that they are found as attributes, too
