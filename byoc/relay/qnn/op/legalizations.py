"""What ``qnn.transform.Legalize`` does with quantized operators: functions of 8-bit numbers become tables.

Source: ``relay/qnn/op/legalizations.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Constant
from byoc.relay.qnn.op.canonicalizations import FloatFunction, create_integer_lookup_op
from byoc.relay.qnn.op.op import register_qnn_legalize
from byoc.runtime.kernels.qnn.elementwise import FUNCTIONS, hard_swish

MAX_TABLE_BITS = 16

hardswish_func = hard_swish  # Relay's name


def register_qnn_unary_op_legalize(op_name: str, floating_point_func: FloatFunction) -> object:
    """Legalize a function of each element to a table, where its parameters are constant scalars."""

    def legalize(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        data = types[0]
        assert isinstance(data, TensorType)
        if np.iinfo(data.dtype).bits > MAX_TABLE_BITS or not all(_is_number(p) for p in inputs[1:]):
            return None
        return create_integer_lookup_op(
            inputs[0], floating_point_func, *inputs[1:], in_dtype=data.dtype, out_dtype=data.dtype
        )

    return register_qnn_legalize(op_name, legalize)


def _is_number(parameter: RelayExpr) -> bool:
    return isinstance(parameter, Constant) and parameter.data.numpy().size == 1


for _name, _function in FUNCTIONS.items():
    register_qnn_unary_op_legalize(f"qnn.{_name}", _function)
