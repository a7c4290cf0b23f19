"""``reverse_reshape``: a reshape whose special numbers are read from the right. Source: ``relay.reverse_reshape``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import view
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.movement.shape import ReshapeAttrs, reshape_compute, reshaped


def _reverse_reshape_rel(types: Sequence[Type], attrs: ReshapeAttrs) -> Type:
    data = tensor_arg(types, 0)
    return TensorType(reshaped(data.shape[::-1], attrs.newshape[::-1], attrs.allowzero)[::-1], data.dtype)


register_op(
    "contrib_reverse_reshape",
    inputs=("data",),
    attrs=ReshapeAttrs,
    rel=_reverse_reshape_rel,
    pattern=OpPattern.INJECTIVE,
    traits=view(),
    compute=reshape_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The same elements in another shape, whose special numbers are read from the right.",
    samples=(
        Sample([(2, 3, 4)], {"newshape": (4, 0, 2)}),
        Sample([(2, 3, 4)], {"newshape": (0, -1)}),
        Sample([(2, 3, 4)], {"newshape": (-1, 0)}),
        Sample([(2, 3, 4)], {"newshape": (0, -3)}),
    ),
)


def reverse_reshape(data: Operand, newshape: Sequence[int]) -> Call:
    """*data* in *newshape*, whose special numbers are read from the right. Source: ``relay.reverse_reshape``."""
    numbers = constant_ints(newshape)
    if numbers is None:
        raise UserError("reverse_reshape: newshape must be known when compiling, got an expression")
    return make_call("contrib_reverse_reshape", [as_expr(data)], ReshapeAttrs(numbers))
