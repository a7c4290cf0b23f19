"""Lowering of ``qnn.concatenate``. Source: ``ConcatenateQnnCanonicalize``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TupleType, Type
from byoc.relay import op as relay
from byoc.relay.expr import Tuple, TupleGetItem
from byoc.relay.narrowing import as_tensor_type, as_tuple_type
from byoc.relay.op.movement.join import ConcatenateAttrs
from byoc.relay.qnn.lowering.requantize import Rescaling, requantized
from byoc.relay.qnn.op.op import register_qnn_canonicalize


def _fields(parts: RelayExpr, ty: Type) -> Sequence[RelayExpr]:
    assert isinstance(ty, TupleType)
    return parts.fields if isinstance(parts, Tuple) else [TupleGetItem(parts, k) for k in range(len(ty.fields))]


@register_qnn_canonicalize("qnn.concatenate")
def lower_concatenate(attrs: ConcatenateAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    """``qnn.concatenate`` as a concatenation of requantized tensors; None where a scale is not constant."""
    data, scales, zeros = (_fields(p, t) for p, t in zip(inputs[:3], types[:3], strict=True))
    kinds = [as_tuple_type(ty).fields for ty in types[:3]]
    parts: list[RelayExpr] = []
    for k, part in enumerate(data):
        ty = as_tensor_type(kinds[0][k])
        how = Rescaling(scales[k], zeros[k], inputs[3], inputs[4], (kinds[1][k], kinds[2][k]), attrs.axis)
        if not how.is_known:
            return None
        parts.append(part if how.is_identity else requantized(part, ty, how, ty.dtype))
    return relay.concatenate(parts, attrs.axis)
