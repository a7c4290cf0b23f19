"""``check_condition``: a tensor that is defined under a condition alone, which the run checks.

A model may decide between tensors of different ranks (PyTorch's exporter writes ``x.squeeze(1)`` so, where the size is
free), and then be computable from one of them only. The importer goes on from that one, and this operator stands
before it. Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import ZERO
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.runtime.core.errors import OF_CONDITION
from byoc.te.expr import INDEX, Checked, PrimExpr


@dataclass(frozen=True)
class CheckConditionAttrs(Attrs):
    """Attributes of ``check_condition``: the value that is *wanted*, and what the *check* is called in an error."""

    wanted: bool
    check: str = ""


def _rel(types: Sequence[Type], attrs: CheckConditionAttrs) -> Type:
    data, condition = tensor_arg(types, 0, "data"), tensor_arg(types, 1, "condition")
    if condition.dtype != "bool" or condition.ndim or not data.ndim:
        raise TypeInferenceError(f"the data has a dimension and the condition is one bool, got {data} and {condition}")
    return data


def _compute(attrs: CheckConditionAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """The elements, at positions to which 0 is added, or what the run refuses."""
    data, condition = inputs
    one = te.const(1, INDEX)
    check = f"{attrs.check}{OF_CONDITION}{attrs.wanted}"

    def element(*i: PrimExpr) -> PrimExpr:
        place = te.if_then_else(condition[()], *((ZERO, one) if attrs.wanted else (one, ZERO)))
        return data[(i[0] + Checked(place, one, check), *i[1:])]

    return [te.compute(te.shape_of(out_type), element, "checked")]


register_op(
    "check_condition",
    inputs=("data", "condition"),
    attrs=CheckConditionAttrs,
    rel=_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="A tensor as it is, where a condition is what it has to be; an error where it is not.",
    samples=(
        Sample([(2, 3), np.array(True)], {"wanted": True}),
        Sample([(4,), np.array(False)], {"wanted": False, "check": "node if (If)"}),
    ),
)


def check_condition(data: Operand, condition: Operand, wanted: bool, check: str = "") -> Call:
    """*data* as it is, ``T[n, ...], bool[] -> T[n, ...]``; an InputError of the run where *condition* is not *wanted*.

    Args:
        data: any tensor with a dimension.
        condition: one bool.
        wanted: what it has to be.
        check: what the error begins with: the node of the model.
    """
    return make_call("check_condition", [as_expr(data), as_expr(condition)], CheckConditionAttrs(wanted, check))
