"""Between floats and quantized integers: ``qnn.quantize``, ``qnn.dequantize`` and their simulations.

Source: ``relay/qnn/op/{quantize,dequantize,simulated_quantize,simulated_dequantize}.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import LayoutFlow, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call, constant
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, tensor_arg
from byoc.relay.qnn.op.type_relations import FLOATS, QUANTIZED, check_along, check_dtype, check_scalar, data_of
from byoc.runtime.kernels.qnn.rounding import OF_ONNX, TOEVEN, UNSAID

# what a simulated quantization takes as a tensor in place of a dtype
SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
SQNN_CODE_TO_DTYPE = {code: name for name, code in SQNN_DTYPE_TO_CODE.items()}


@dataclass(frozen=True)
class QuantizeAttrs(Attrs):
    """Attributes of ``qnn.quantize``; rounding ``TOEVEN`` is ONNX's, before the zero point is added; else behind it.

    ``MOVED_TOEVEN`` says that the latter is ONNX Runtime's too, unsaid it is Relay's.
    """

    out_dtype: str = written("int8")
    axis: int = -1
    rounding: str = UNSAID


@dataclass(frozen=True)
class DequantizeAttrs(Attrs):
    """Attributes of ``qnn.dequantize``."""

    out_dtype: str = written("float32")
    axis: int = -1


@dataclass(frozen=True)
class SimulatedQuantizeAttrs(Attrs):
    """Attributes of ``qnn.simulated_quantize`` and ``qnn.simulated_dequantize``."""

    axis: int = -1


def _quantize_rel(types: Sequence[Type], attrs: QuantizeAttrs) -> Type:
    data = data_of(types, 0, "data", FLOATS)
    check_along(data, types[1:3], ("output_scale", "output_zero_point"), attrs.axis)
    check_dtype("out_dtype", attrs.out_dtype, QUANTIZED)
    if attrs.rounding not in (UNSAID, *OF_ONNX):
        raise TypeInferenceError(f"rounding is {', '.join(OF_ONNX)} or {UNSAID}, got {attrs.rounding!r}")
    return TensorType(data.shape, attrs.out_dtype)


def _dequantize_rel(types: Sequence[Type], attrs: DequantizeAttrs) -> Type:
    data = data_of(types, 0, "data", QUANTIZED)
    check_along(data, types[1:3], ("input_scale", "input_zero_point"), attrs.axis)
    check_dtype("out_dtype", attrs.out_dtype, FLOATS)
    return TensorType(data.shape, attrs.out_dtype)


def _simulated_rel(types: Sequence[Type], attrs: SimulatedQuantizeAttrs) -> Type:
    data = tensor_arg(types, 0)
    if not is_float(data.dtype):
        raise TypeInferenceError(f"input data must be a float tensor, got {data.dtype}")
    check_scalar(types[1], "the code of the dtype", "int32")
    check_along(data, types[2:4], ("scale", "zero point"), attrs.axis)
    return data


_SCALE, _ZERO = np.array(0.25, "float32"), np.array(3, "int32")
_SCALES, _ZEROS = np.array([0.1, 0.02, 0.5], "float32"), np.array([0, -7, 40], "int32")
_INTS = np.arange(-120, 120, 20, dtype="int8").reshape(4, 3)

register_op(
    "qnn.quantize",
    inputs=("data", "output_scale", "output_zero_point"),
    attrs=QuantizeAttrs,
    rel=_quantize_rel,
    pattern=OpPattern.ELEMWISE,
    traits=Traits(OpKind.POINTWISE, quantized=True, layout_flow=LayoutFlow.SCALED, zero_of_result=2),
    doc="Floats as integers: round(data / scale + zero point), kept in the dtype's range.",
    samples=(
        Sample([(2, 3), _SCALE, _ZERO], {"out_dtype": "uint8"}),
        Sample([(2, 3), _SCALES, _ZEROS], {"axis": 1}),
        Sample([(3, 2, 2), _SCALES, _ZERO], {"axis": 0, "out_dtype": "int32"}),
        Sample([(2, 3), _SCALES, _ZEROS], {"axis": 1, "rounding": TOEVEN}),
    ),
)
register_op(
    "qnn.dequantize",
    inputs=("data", "input_scale", "input_zero_point"),
    attrs=DequantizeAttrs,
    rel=_dequantize_rel,
    pattern=OpPattern.ELEMWISE,
    traits=Traits(OpKind.POINTWISE, quantized=True, layout_flow=LayoutFlow.SCALED, zero_of_data=2),
    doc="Quantized integers as floats: (data - zero point) * scale.",
    samples=(
        Sample([_INTS, _SCALE, _ZERO]),
        Sample([_INTS, _SCALES, _ZEROS]),
        Sample([_INTS.T.astype("int32"), _SCALES, _ZERO], {"axis": 0, "out_dtype": "float16"}),
    ),
)
for _name, _doc in (
    ("quantize", "Floats as quantize would leave them, still floats."),
    ("dequantize", "What simulated_quantize left, scaled back."),
):
    register_op(
        f"qnn.simulated_{_name}",
        inputs=("data", "datatype", "scale", "zero_point"),
        attrs=SimulatedQuantizeAttrs,
        rel=_simulated_rel,
        pattern=OpPattern.ELEMWISE,
        traits=Traits(OpKind.POINTWISE, quantized=True),
        doc=_doc,
        samples=tuple(
            Sample([(2, 3), np.array(code, "int32"), _SCALES, _ZEROS]) for code in sorted(SQNN_CODE_TO_DTYPE)
        ),
    )


def quantize(
    data: Operand,
    output_scale: Operand,
    output_zero_point: Operand,
    axis: int = -1,
    out_dtype: str = "int8",
    rounding: str = UNSAID,
) -> Call:
    """Floats as integers of *out_dtype*: ``round(data / scale + zero_point)``. Source: ``relay.qnn.op.quantize``.

    With *rounding* ``TOEVEN`` ``round(data / scale) + zero_point``, as ONNX has it.
    """
    attrs = QuantizeAttrs(str(out_dtype), int(axis), rounding)
    return make_call("qnn.quantize", _operands(data, output_scale, output_zero_point), attrs)


def dequantize(
    data: Operand, input_scale: Operand, input_zero_point: Operand, axis: int = -1, out_dtype: str = "float32"
) -> Call:
    """Integers as floats: ``(data - zero_point) * scale``. Source: ``relay.qnn.op.dequantize``."""
    return make_call(
        "qnn.dequantize", _operands(data, input_scale, input_zero_point), DequantizeAttrs(str(out_dtype), int(axis))
    )


def simulated_quantize(
    data: Operand,
    output_scale: Operand,
    output_zero_point: Operand,
    axis: int = -1,
    out_dtype: str | RelayExpr = "int8",
) -> Call:
    """Quantization in floats; *out_dtype* may be an expression. Source: ``relay.qnn.op.simulated_quantize``.

    Raises UserError for a dtype that has no code.
    """
    given = _operands(data, output_scale, output_zero_point)
    args = [given[0], _dtype_code(out_dtype), *given[1:]]
    return make_call("qnn.simulated_quantize", args, SimulatedQuantizeAttrs(int(axis)))


def simulated_dequantize(
    data: Operand, input_scale: Operand, input_zero_point: Operand, axis: int = -1, in_dtype: str | RelayExpr = "int8"
) -> Call:
    """Dequantization in floats; *in_dtype* may be an expression. Source: ``relay.qnn.op.simulated_dequantize``.

    Raises UserError for a dtype that has no code.
    """
    given = _operands(data, input_scale, input_zero_point)
    args = [given[0], _dtype_code(in_dtype), *given[1:]]
    return make_call("qnn.simulated_dequantize", args, SimulatedQuantizeAttrs(int(axis)))


def _operands(data: Operand, scale: Operand, zero_point: Operand) -> list[RelayExpr]:
    return [as_expr(data), as_expr(scale, "float32"), as_expr(zero_point, "int32")]


def _dtype_code(dtype: str | RelayExpr) -> RelayExpr:
    if isinstance(dtype, RelayExpr):
        return dtype
    if dtype not in SQNN_DTYPE_TO_CODE:
        raise UserError(f"a simulated dtype is one of {', '.join(SQNN_DTYPE_TO_CODE)} or an expression, got {dtype!r}")
    return constant(SQNN_DTYPE_TO_CODE[dtype], "int32")
