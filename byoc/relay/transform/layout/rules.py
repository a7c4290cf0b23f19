"""The layout rule of each operator: one table, from which operators get their attribute ``FInferCorrectLayout``.

Ours stand at level 10: what a user registers at that level or above takes their place, what stands below does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.attrs import Attrs
from byoc.ir.layout import Layout
from byoc.ir.op import Op, declare_op_attr
from byoc.ir.types import Type
from byoc.relay.transform.infer_layout_utils import InferCorrectLayoutOutput, as_layout
from byoc.relay.transform.layout import inference as base
from byoc.relay.transform.layout import inference_axes as axes
from byoc.relay.transform.layout import inference_windows as windows
from byoc.relay.transform.layout.inference import UNDEFINED, CorrectLayouts, LayoutCase, LayoutRule

ELEMENTWISE = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "cast",
    "ceil",
    "clip",
    "copy",
    "cos",
    "cosh",
    "device_copy",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "fixed_point_multiply",
    "floor",
    "full_like",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "negative",
    "nn.leaky_relu",
    "nn.relu",
    "on_device",
    "ones_like",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "zeros_like",
    "annotation.stop_fusion",
    "annotation.checkpoint",
    "annotation.compiler_begin",
    "annotation.compiler_end",
    "reinterpret",
)
BROADCAST = (
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
    "trunc_divide",
    "trunc_mod",
)
REDUCTIONS = ("all", "any", "max", "mean", "min", "prod", "sum", "variance")

_TRANSFORMED = ("conv2d_winograd", "conv3d_winograd", "conv2d_gemm")
_CONV = windows.convolution("data_layout", "kernel_layout")
_POOLS = [f"nn.{kind}_pool{n}d" for n in (1, 2, 3) for kind in ("max", "avg", "adaptive_max", "adaptive_avg")]

LAYOUT_RULES: dict[str, LayoutRule] = {
    **dict.fromkeys(ELEMENTWISE, base.elementwise),
    **dict.fromkeys(BROADCAST, base.broadcast),
    "cast_like": base.like_the_second,
    "nn.dropout": base.elementwise_pair,
    **dict.fromkeys(REDUCTIONS, axes.reduce),
    **dict.fromkeys(("argmax", "argmin"), axes.argument_reduce),
    **dict.fromkeys((f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")), _CONV),
    **dict.fromkeys(
        ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc", "nn.conv2d_backward_weight"), _CONV
    ),
    **dict.fromkeys((f"nn.contrib_{form}_without_weight_transform" for form in _TRANSFORMED), _CONV),
    "nn.deformable_conv2d": windows.convolution("data_layout", "data_layout", "kernel_layout"),
    **dict.fromkeys((*_POOLS, "nn.global_max_pool2d", "nn.global_avg_pool2d"), windows.pool),
    **dict.fromkeys(("nn.upsampling", "nn.upsampling3d"), windows.upsampling),
    **dict.fromkeys((f"image.resize{n}d" for n in (1, 2, 3)), windows.resize),
    "image.dilation2d": _CONV,
    "nn.bitserial_conv2d": _CONV,
    "nn.correlation": windows.own_layout,
    "vision.roi_align": windows.regions,
    "vision.roi_pool": windows.regions,
    **dict.fromkeys(("nn.dense", "nn.matmul"), windows.dense),
    "nn.contrib_dense_pack": windows.packed_dense,
    "layout_transform": windows.transformed,
    "concatenate": axes.concatenate,
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
    "nn.instance_norm": axes.normalization,
    "nn.group_norm": axes.normalization,
    "nn.prelu": axes.prelu,
    **dict.fromkeys(("nn.softmax", "nn.fast_softmax", "nn.log_softmax", "nn.lrn"), axes.moved_axis),
    "nn.l2_normalize": axes.moved_axes,
    **dict.fromkeys(("qnn.conv2d", "qnn.conv2d_transpose"), _CONV),
    **dict.fromkeys(("qnn.requantize", "qnn.quantize", "qnn.dequantize"), windows.quantization),
    **dict.fromkeys((f"qnn.{name}" for name in ("add", "subtract", "mul")), base.quantized_broadcast),
    **dict.fromkeys(("qnn.dense", "qnn.contrib_dense_pack"), windows.dense),
    "qnn.concatenate": axes.concatenate,
    "qnn.avg_pool2d": windows.quantized_pool,
}


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
        """The layouts that a call wants and gives; undefined ones where the rule cannot tell."""
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
    return _registered(found) if callable(found) else None


for _name, _rule in LAYOUT_RULES.items():
    declare_op_attr(_name, "FInferCorrectLayout", DeclaredLayoutRule(_rule))
