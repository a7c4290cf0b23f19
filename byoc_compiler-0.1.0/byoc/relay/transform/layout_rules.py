"""The layout rule of each operator: one table, which the attribute ``FInferCorrectLayout`` of an operator overrides."""

from __future__ import annotations

from collections.abc import Callable

from byoc.ir.layout import Layout
from byoc.ir.op import Op
from byoc.relay.transform import layout_inference as base
from byoc.relay.transform import layout_inference_axes as axes
from byoc.relay.transform import layout_inference_windows as windows
from byoc.relay.transform.layout_inference import CorrectLayouts, LayoutCase, LayoutRule

ELEMENTWISE = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "cast", "ceil", "clip", "copy", "cos",
    "cosh", "device_copy", "erf", "exp", "exp2", "expm1", "fast_erf", "fast_exp", "fast_tanh", "fixed_point_multiply",
    "floor", "full_like", "hard_sigmoid", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "logical_not",
    "negative", "nn.leaky_relu", "nn.relu", "on_device", "ones_like", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc", "zeros_like", "annotation.stop_fusion", "annotation.cast_hint",
)
BROADCAST = (
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide", "floor_mod", "greater",
    "greater_equal", "left_shift", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "maximum",
    "minimum", "mod", "multiply", "not_equal", "power", "right_shift", "subtract", "trunc_divide", "trunc_mod",
)
REDUCTIONS = ("all", "any", "max", "mean", "min", "prod", "sum", "variance", "logsumexp")

_CONV = windows.convolution("data_layout", "kernel_layout")
_POOLS = [f"nn.{kind}_pool{n}d" for n in (1, 2, 3) for kind in ("max", "avg", "adaptive_max", "adaptive_avg")]

LAYOUT_RULES: dict[str, LayoutRule] = {
    **dict.fromkeys(ELEMENTWISE, base.elementwise),
    **dict.fromkeys(BROADCAST, base.broadcast),
    **dict.fromkeys(REDUCTIONS, axes.reduce),
    **dict.fromkeys(("argmax", "argmin"), axes.argument_reduce),
    **dict.fromkeys((f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")), _CONV),
    **dict.fromkeys(
        ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc", "nn.conv2d_backward_weight"), _CONV
    ),
    "nn.deformable_conv2d": windows.convolution("data_layout", "data_layout", "kernel_layout"),
    **dict.fromkeys((*_POOLS, "nn.global_max_pool2d", "nn.global_avg_pool2d"), windows.pool),
    **dict.fromkeys(("nn.upsampling", "nn.upsampling3d"), windows.resize),
    **dict.fromkeys((f"image.resize{n}d" for n in (1, 2, 3)), windows.resize),
    "vision.roi_align": windows.regions,
    "vision.roi_pool": windows.regions,
    "nn.dense": windows.dense,
    "nn.contrib_dense_pack": windows.packed_dense,
    "layout_transform": windows.transformed,
    "concatenate": axes.concatenate,
    "split": axes.split,
    "transpose": axes.transpose,
    "squeeze": axes.squeeze,
    "strided_slice": axes.strided_slice,
    "take": axes.take,
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
}


def _registered(infer: Callable[..., object]) -> LayoutRule:
    """A function ``(attrs, new_layouts, old_layouts, types)`` as Relay's, with its output object, as a rule."""

    def rule(case: LayoutCase) -> CorrectLayouts | None:
        found = infer(case.attrs, case.new and list(case.new), list(case.old), list(case.types))
        if found is None or isinstance(found, CorrectLayouts):
            return found
        inputs, outputs = (
            tuple(x if isinstance(x, Layout) else Layout(str(x)) for x in layouts)
            for layouts in (found.input_layouts, found.output_layouts)  # type: ignore[attr-defined]
        )
        return CorrectLayouts(inputs, outputs, found.new_attrs)  # type: ignore[attr-defined]

    return rule


def layout_rule(op: Op) -> LayoutRule | None:
    """The rule of *op*; None for an operator whose inputs must be brought back to what they were."""
    own = op.get_attr("FInferCorrectLayout")
    return _registered(own) if callable(own) else LAYOUT_RULES.get(op.name)
