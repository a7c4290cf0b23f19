"""Scales and zero points in lowered graphs: constants become constants of the shape and dtype in which they are used.

A parameter that is not constant gets the casts and reshapes that do the same when the graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.expr import Constant, constant
from byoc.runtime.kernels.qnn.parameters import spread as spread_array

# zero points up to here leave a difference with an 8-bit number that int16 holds
INT16_ZERO = 2**15 - 256


def value_of(parameter: RelayExpr) -> np.ndarray | None:
    """The numbers of a constant; None for what is known only when the graph runs."""
    return parameter.data.numpy() if isinstance(parameter, Constant) else None


def number_of(parameter: RelayExpr) -> np.generic | None:
    """The one number of a constant; None for several, or for what is not constant."""
    value = value_of(parameter)
    if value is None or value.size != 1:
        return None
    number: np.generic = value.dtype.type(value.item())
    return number


def difference_dtype(data: TensorType, zero_points: Sequence[RelayExpr]) -> str:
    """int16 where it holds the data less any of *zero_points*, else int32."""
    values = [value_of(z) for z in zero_points]
    fits = all(v is not None and abs(v.astype("int64")).max(initial=0) < INT16_ZERO for v in values)
    return "int16" if fits and data.dtype in ("int8", "uint8") else "int32"


def is_zero(parameter: RelayExpr) -> bool:
    """True for a constant of zeros."""
    value = value_of(parameter)
    return value is not None and not value.any()


def spread(parameter: RelayExpr, ty: Type, axis: int, ndim: int, dtype: str) -> RelayExpr:
    """*parameter* of type *ty* as *dtype*, shaped to broadcast along *axis* of a tensor of *ndim* dimensions."""
    value = value_of(parameter)
    if value is not None:
        return constant(np.array(spread_array(value, axis, ndim), dtype))
    assert isinstance(ty, TensorType)
    cast = parameter if ty.dtype == dtype else relay.cast(parameter, dtype)
    if ty.ndim == 0:
        return cast
    if all(d == 1 for d in ty.shape):
        return relay.reshape(cast, ())
    after = ndim - 1 - axis % ndim
    return relay.expand_dims(cast, 1, after) if after else cast


def scalar(parameter: RelayExpr, ty: Type, dtype: str) -> RelayExpr:
    """A parameter of one number as a scalar of *dtype*."""
    return spread(parameter, ty, 0, 0, dtype)


def less_zero(data: RelayExpr, parameter: RelayExpr, ty: Type, axis: int, ndim: int, dtype: str) -> RelayExpr:
    """*data* of *dtype* less a zero point; *data* itself where that is 0."""
    return data if is_zero(parameter) else relay.subtract(data, spread(parameter, ty, axis, ndim, dtype))


def narrow(data: RelayExpr, dtype: str) -> RelayExpr:
    """int32 *data* moved into the range of the integer *dtype*, and cast to it."""
    if dtype == "int32":
        return data
    info = np.iinfo(dtype)
    return relay.cast(relay.clip(data, max(info.min, -(2**31)), min(info.max, 2**31 - 1)), dtype)


def cast(data: RelayExpr, before: str, dtype: str) -> RelayExpr:
    """*data* of dtype *before* as *dtype*."""
    return data if before == dtype else relay.cast(data, dtype)
