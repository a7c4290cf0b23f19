"""``qnn.concatenate``: quantized tensors under one scale, joined. Source: ``relay/qnn/op/concatenate.cc``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, get_op, register_op
from byoc.ir.traits import LayoutFlow, OpKind, Traits
from byoc.ir.types import Type
from byoc.relay.expr import Call, Tuple
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tuple_arg
from byoc.relay.op.movement.join import ConcatenateAttrs
from byoc.relay.qnn.op.type_relations import SCALE, ZERO_POINT, check_scalar

Parts = RelayExpr | Iterable[Operand]


def _relation(types: Sequence[Type], attrs: ConcatenateAttrs) -> Type:
    parts = tuple_arg(types, 0)
    for index, name, dtype in ((1, "input_scales", SCALE), (2, "input_zero_points", ZERO_POINT)):
        numbers = tuple_arg(types, index, name)
        if len(numbers) != len(parts):
            raise TypeInferenceError(f"{len(parts)} tensors are joined and {len(numbers)} {name} given")
        for k, ty in enumerate(numbers):
            check_scalar(ty, f"{name}[{k}]", dtype)
    check_scalar(types[3], "output_scale", SCALE)
    check_scalar(types[4], "output_zero_point", ZERO_POINT)
    return get_op("concatenate").result_type(types[:1], attrs)


_A, _B = np.arange(0, 250, 50, dtype="uint8").reshape(1, 5), np.arange(10, 250, 24, dtype="uint8").reshape(2, 5)
register_op(
    "qnn.concatenate",
    inputs=("data", "input_scales", "input_zero_points", "output_scale", "output_zero_point"),
    attrs=ConcatenateAttrs,
    rel=_relation,
    pattern=OpPattern.INJECTIVE,
    traits=Traits(OpKind.OTHER, quantized=True, layout_flow=LayoutFlow.JOINED),
    doc="Quantized tensors, each requantized to the scale of the result, one after another.",
    samples=(
        Sample(
            [
                [_A, _B],
                [np.array(0.5, "float32"), np.array(0.3, "float32")],
                [np.array(3, "int32"), np.array(0, "int32")],
                np.array(0.5, "float32"),
                np.array(3, "int32"),
            ]
        ),
    ),
)


def concatenate(
    data: Parts,
    input_scales: Parts,
    input_zero_points: Parts,
    output_scale: Operand,
    output_zero_point: Operand,
    axis: int,
) -> Call:
    """Quantized tensors one after another along *axis*. Source: ``relay.qnn.op.concatenate``.

    Raises UserError for an empty list.
    """
    args = [
        _parts(data, "data"),
        _parts(input_scales, "input_scales", SCALE),
        _parts(input_zero_points, "input_zero_points", ZERO_POINT),
        as_expr(output_scale, SCALE),
        as_expr(output_zero_point, ZERO_POINT),
    ]
    return make_call("qnn.concatenate", args, ConcatenateAttrs(int(axis)))


def _parts(parts: Parts, what: str, dtype: str | None = None) -> RelayExpr:
    if isinstance(parts, RelayExpr):
        return parts
    fields = [as_expr(p, dtype) for p in parts]
    if not fields:
        raise UserError(f"qnn.concatenate: {what} is an empty list; give one entry for each tensor that is joined")
    return Tuple(fields)
