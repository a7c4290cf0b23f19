"""``qnn.avg_pool2d``: means of quantized windows. Source: ``relay/qnn/op/avg_pool2d.cc``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.ir.op import OpPattern, Sample, get_op, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.pool import AvgPool2DAttrs
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, make_call
from byoc.relay.qnn.op.unary import elementwise_relation, operands


def _relation(types: Sequence[Type], attrs: AvgPool2DAttrs) -> Type:
    elementwise_relation(types, attrs)
    return get_op("nn.avg_pool2d").rel(types[:1], attrs)  # type: ignore[misc]


_DATA = (np.arange(96) * 37 % 256).astype("uint8").reshape(1, 2, 6, 8)
_NUMBERS = [np.array(0.5, "float32"), np.array(7, "int32"), np.array(0.4, "float32"), np.array(11, "int32")]
register_op(
    "qnn.avg_pool2d",
    inputs=("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
    attrs=AvgPool2DAttrs,
    rel=_relation,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.WINDOW, quantized=True, any_layout=True),
    doc="The mean of each 2-d window of a quantized tensor.",
    samples=(
        Sample([_DATA, *_NUMBERS], {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW"}),
        Sample(
            [_DATA.view("int8"), *_NUMBERS],
            {
                "pool_size": (3, 3),
                "strides": (1, 1),
                "padding": (1, 1, 1, 1),
                "layout": "NHWC",
                "count_include_pad": True,
            },
        ),
    ),
)


@dataclass(eq=False, repr=False)
class AvgPool2DArguments(WindowArguments):
    """Arguments of ``qnn.op.avg_pool2d``."""

    AXES = 2
    data: Operand
    input_scale: Operand
    input_zero_point: Operand
    output_scale: Operand
    output_zero_point: Operand
    pool_size: Ints
    strides: Ints
    padding: Ints
    dilation: Ints
    ceil_mode: bool = False
    count_include_pad: bool = True
    layout: str = "NHWC"
    out_layout: str = ""


@takes_fields_of(AvgPool2DArguments)
def avg_pool2d(given: AvgPool2DArguments) -> Call:
    """The mean of each 2-d window of a quantized tensor. Source: ``relay.qnn.op.avg_pool2d``.

    Raises UserError for a wrong count of numbers.
    """
    numbers = (given.input_scale, given.input_zero_point, given.output_scale, given.output_zero_point)
    return make_call("qnn.avg_pool2d", operands(given.data, *numbers), given.attrs(AvgPool2DAttrs))
