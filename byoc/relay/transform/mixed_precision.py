"""Which operators are computed in a lower precision: always, as their inputs are, or never.

``always`` is for operators that gain much and lose little; ``never`` for those whose results leave the range of half
precision, or that sum much. A rule is the attribute ``FTVMMixedPrecisionConversionType``: from a call and the
lower dtype to the category, the dtype of sums, and the dtype of the result. An integration may set its own. Source:
``tvm.relay.transform.mixed_precision``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from byoc.ir.op import OPS
from byoc.relay.expr import Call

KEY = "FTVMMixedPrecisionConversionType"
ConversionRule = Callable[[Call, str], Sequence[object]]


class Conversion(enum.IntEnum):
    """What becomes of the calls of an operator."""

    ALWAYS = 0
    FOLLOW = 1
    NEVER = 2


MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = map(int, Conversion)

DEFAULT_ALWAYS_LIST = (
    *(f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")),
    "nn.dense",
    "nn.batch_matmul",
    "nn.matmul",
)
DEFAULT_FOLLOW_LIST = (
    # what moves or makes numbers
    "nn.pad",
    "nn.batch_flatten",
    "concatenate",
    "zeros",
    "split",
    "squeeze",
    "transpose",
    "expand_dims",
    "reshape",
    "dyn.reshape",
    "broadcast_to",
    "broadcast_to_like",
    "dyn.broadcast_to",
    "strided_slice",
    "dyn.strided_slice",
    "take",
    "argwhere",
    "topk",
    "dyn.topk",
    "where",
    "repeat",
    "tile",
    "dyn.tile",
    "scatter_elements",
    "full",
    "dyn.full",
    "nn.depth_to_space",
    "nn.space_to_depth",
    "layout_transform",
    "stack",
    "reverse",
    "gather",
    "gather_nd",
    # comparisons, copies and casts
    "less",
    "greater",
    "less_equal",
    "greater_equal",
    "copy",
    "cast",
    "cast_like",
    # plain arithmetic and activations
    "add",
    "subtract",
    "multiply",
    "divide",
    "nn.bias_add",
    "nn.batch_norm",
    "sqrt",
    "shape_of",
    "max",
    "min",
    "maximum",
    "minimum",
    "argmax",
    "argmin",
    "nn.relu",
    "nn.leaky_relu",
    "nn.prelu",
    "nn.dropout",
    "sigmoid",
    "tanh",
    "fast_tanh",
    "fast_exp",
    "fast_erf",
    "clip",
    "abs",
    "negative",
    # pools that keep the size of numbers, and interpolation
    *(f"nn.{kind}_pool{n}d" for n in (1, 2, 3) for kind in ("max", "avg")),
    "nn.global_max_pool2d",
    *(f"nn.adaptive_max_pool{n}d" for n in (1, 2, 3)),
    "image.resize2d",
)
DEFAULT_NEVER_LIST = (
    "exp",
    "power",
    "nn.cross_entropy",
    "nn.cross_entropy_with_logits",
    "nn.softmax",
    "nn.log_softmax",
    "erf",
    "log",
    "nn.l2_normalize",
    "nn.layer_norm",
    "nn.instance_norm",
    "nn.group_norm",
    "nn.global_avg_pool2d",
    *(f"nn.adaptive_avg_pool{n}d" for n in (1, 2, 3)),
    "sum",
    "mean",
    "variance",
    "prod",
    "cumsum",
    "arange",
)


def get_generic_out_dtypes(call_node: Call, mixed_precision_type: str) -> list[str]:
    """The dtypes in which a converted operator sums and answers: the lower one for both."""
    return [mixed_precision_type, mixed_precision_type]


def rule_of(category: Conversion) -> ConversionRule:
    """The rule that puts an operator into *category*."""
    return lambda call, dtype: [int(category), *get_generic_out_dtypes(call, dtype)]


def register_func_to_op_list(list_ops: Sequence[str], func: ConversionRule) -> None:
    """Give *func* to those of *list_ops* that are here and have no rule yet. Source: ``register_func_to_op_list``."""
    for name in list_ops:
        if name in OPS and not OPS[name].has_attr(KEY):
            OPS[name].set_attr(KEY, func)


register_func_to_op_list(DEFAULT_ALWAYS_LIST, rule_of(Conversion.ALWAYS))
register_func_to_op_list(DEFAULT_FOLLOW_LIST, rule_of(Conversion.FOLLOW))
register_func_to_op_list(DEFAULT_NEVER_LIST, rule_of(Conversion.NEVER))
