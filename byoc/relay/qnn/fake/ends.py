"""Rules of both ends of a region: ``qnn.dequantize`` falls away, ``qnn.quantize`` becomes a requantization.

Source: ``dequantize_qnn`` and ``quantize_qnn`` of ``fake_quantization_to_integer.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.affine_type import TensorAffineType
from byoc.relay import qnn
from byoc.relay.expr import Call
from byoc.relay.op.op import register_fake_quantization_to_integer as register
from byoc.relay.qnn.fake.parameters import fold_constant, same_numbers
from byoc.relay.qnn.fake.rewriting import TypeMap


@register("qnn.dequantize")
def dequantize_qnn(expr: Call, type_map: TypeMap) -> Sequence[object]:
    """The integers that were dequantized."""
    return [expr.args[0], type_map[expr]]


@register("qnn.quantize")
def quantize_qnn(expr: Call, type_map: TypeMap) -> Sequence[object]:
    """The integers of the region under the scale that the quantize asks for."""
    out = expr.args[0]
    found = type_map[out]
    assert isinstance(found, TensorAffineType)
    attrs = expr.attrs
    asked = TensorAffineType(expr.args[1], expr.args[2], attrs.out_dtype, attrs.axis)
    if not same_numbers(found, asked):
        out = qnn.op.requantize(
            out,
            fold_constant(found.scale),
            fold_constant(found.zero_point),
            asked.scale,
            asked.zero_point,
            out_dtype=asked.dtype,
            axis=found.axis,
        )
    return [out, asked]
