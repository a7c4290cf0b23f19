"""Functions of 8- and 16-bit integers as tables: ``relay.qnn.op.canonicalizations``.

A function of a quantized tensor is a table with one entry for each bit pattern of its dtype, made when compiling by the
quantization that the graph would do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.relay import op as relay
from byoc.relay.expr import constant
from byoc.relay.qnn.op.quantize import dequantize, quantize

FloatFunction = Callable[[np.ndarray], np.ndarray]


def run_const_expr(expr: RelayExpr | int | float) -> np.ndarray:
    """The value of an expression without variables, or of a number. Raises UserError for a free variable."""
    if not isinstance(expr, RelayExpr):
        return np.array(expr)
    from byoc.relay.interpreter import evaluate  # for tables alone, which few models have

    value = evaluate(expr)
    if not isinstance(value, np.ndarray):
        raise UserError("run_const_expr takes an expression of one tensor, got a tuple")
    return value


def create_integer_lookup_table(
    floating_point_func: FloatFunction,
    input_scale: RelayExpr,
    input_zero_point: RelayExpr,
    output_scale: RelayExpr,
    output_zero_point: RelayExpr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> np.ndarray:
    """The function of each number of *in_dtype*, quantized: entry k belongs to the bit pattern of unsigned k.

    Raises ValueError for dtypes that are no integers.
    """
    if not np.issubdtype(np.dtype(in_dtype), np.integer) or not np.issubdtype(np.dtype(out_dtype), np.integer):
        raise ValueError(f"Only integer dtypes allowed got {in_dtype} and {out_dtype} for in and out dtypes.")
    bits = np.iinfo(in_dtype).bits
    patterns = np.arange(2**bits, dtype=np.int64).astype(f"uint{bits}").view(in_dtype)
    floats = run_const_expr(dequantize(constant(patterns), input_scale, input_zero_point, in_axis))
    with np.errstate(all="ignore"):
        values = np.asarray(floating_point_func(floats)).astype(np.float32)
    return run_const_expr(quantize(constant(values), output_scale, output_zero_point, out_axis, out_dtype))


def create_integer_lookup_op(
    input_arg: RelayExpr,
    floating_point_func: FloatFunction,
    in_scale: RelayExpr,
    in_zero_point: RelayExpr,
    out_scale: RelayExpr,
    out_zero_point: RelayExpr,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> RelayExpr:
    """The function of a quantized tensor as ``take`` of a table. Raises UserError for parameters of several numbers."""
    numbers = [run_const_expr(p) for p in (in_scale, in_zero_point, out_scale, out_zero_point)]
    if any(n.size != 1 for n in numbers):
        raise UserError("a table needs one scale and one zero point for the input and the output, got several numbers")
    dtypes = ("float32", "int32", "float32", "int32")
    given, point, wanted, new_point = (constant(n.reshape(()).astype(d)) for n, d in zip(numbers, dtypes, strict=True))
    table = create_integer_lookup_table(
        floating_point_func, given, point, wanted, new_point, in_axis, out_axis, in_dtype, out_dtype
    )
    unsigned = f"uint{np.iinfo(in_dtype).bits}"
    # a cast between integers of one size keeps the bits, and has generated code, which reinterpret has not
    index = input_arg if in_dtype == unsigned else relay.cast(input_arg, unsigned)
    return relay.take(constant(table), index, axis=0, mode="fast")
