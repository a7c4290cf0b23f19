"""``qnn.requantize``: a quantized tensor under another scale and zero point; and how it rounds by default.

Source: ``relay/qnn/op/requantize.cc`` and ``requantize_config`` of ``relay/qnn/op/qnn.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs, written
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import LayoutFlow, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.qnn.op.type_relations import SCALE, ZERO_POINT, check_along, check_dtype, check_scalar, data_of
from byoc.runtime.kernels.qnn.rounding import (
    COMPUTE_DTYPES,
    ROUNDINGS,
    TOEVEN,
    UNSAID,
    current_defaults,
    pop_defaults,
    push_defaults,
)


@dataclass(frozen=True)
class RequantizeAttrs(Attrs):
    """Attributes of ``qnn.requantize``; rounding and compute dtype ``None`` leave the choice to the configuration.

    Rounding ``TOEVEN`` is ONNX's, in floats; Relay does not have it.
    """

    axis: int = -1
    rounding: str = UNSAID
    compute_dtype: str = UNSAID
    out_dtype: str = written("int8", left_out="")


def _requantize_rel(types: Sequence[Type], attrs: RequantizeAttrs) -> Type:
    data = data_of(types, 0, "data", ("int8", "uint8", "int16", "int32", "int64"))
    check_along(data, types[1:3], ("input_scale", "input_zero_point"), attrs.axis)
    check_scalar(types[3], "output_scale", SCALE)
    check_scalar(types[4], "output_zero_point", ZERO_POINT)
    check_dtype("out_dtype", attrs.out_dtype, ("int8", "uint8", "int16", "int32"))
    if attrs.rounding == TOEVEN and attrs.compute_dtype == "int64":
        raise TypeInferenceError(f"rounding {TOEVEN} is computed in floats, got compute_dtype int64")
    roundings = (*ROUNDINGS, TOEVEN)
    if attrs.rounding not in (*roundings, UNSAID, "") or attrs.compute_dtype not in (*COMPUTE_DTYPES, UNSAID, ""):
        raise TypeInferenceError(
            f"rounding is one of {', '.join(roundings)} and compute_dtype one of {', '.join(COMPUTE_DTYPES)}, "
            f"got {attrs.rounding!r} and {attrs.compute_dtype!r}"
        )
    return TensorType(data.shape, attrs.out_dtype)


_WIDE = np.array([[-2000000000, -700, -3, -1, 0, 1], [2, 3, 5, 700, 90000, 2000000000]], "int32")
_PARAMETERS = [np.array(0.3, "float32"), np.array(2, "int32"), np.array(0.7, "float32"), np.array(-5, "int32")]
_CHANNELS = [np.array([0.3, 4.0], "float32"), np.array([2, 0], "int32"), *_PARAMETERS[2:]]

register_op(
    "qnn.requantize",
    inputs=("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
    attrs=RequantizeAttrs,
    rel=_requantize_rel,
    pattern=OpPattern.ELEMWISE,
    traits=Traits(OpKind.POINTWISE, quantized=True, layout_flow=LayoutFlow.SCALED, zero_of_data=2, zero_of_result=4),
    doc="Quantized integers under another scale and zero point, rounded and kept in the dtype's range.",
    samples=(
        Sample([_WIDE, *_PARAMETERS]),
        Sample([_WIDE // 4, *_CHANNELS], {"axis": 0, "rounding": "TONEAREST", "out_dtype": "int32"}),
        Sample([_WIDE // 4, *_CHANNELS], {"axis": 0, "compute_dtype": "float32", "out_dtype": "uint8"}),
        Sample([_WIDE, *_PARAMETERS], {"compute_dtype": "float64", "rounding": "TONEAREST", "out_dtype": "int16"}),
        Sample([_WIDE // 4, *_CHANNELS], {"axis": 0, "rounding": TOEVEN}),
    ),
)


@dataclass(eq=False, repr=False)
class RequantizeArguments(Arguments):
    """Arguments of ``qnn.op.requantize``."""

    data: Operand
    input_scale: Operand
    input_zero_point: Operand
    output_scale: Operand
    output_zero_point: Operand
    axis: int = -1
    rounding: str = UNSAID
    compute_dtype: str = UNSAID
    out_dtype: str = "int8"


@takes_fields_of(RequantizeArguments)
def requantize(given: RequantizeArguments) -> Call:
    """*data* of one scale and zero point under another. Source: ``relay.qnn.op.requantize``.

    ``data: i[...], input scale: f32 and zero point: i32 along axis, output's scalars -> out_dtype[...]``.
    """
    args = [
        as_expr(given.data),
        as_expr(given.input_scale, SCALE),
        as_expr(given.input_zero_point, ZERO_POINT),
        as_expr(given.output_scale, SCALE),
        as_expr(given.output_zero_point, ZERO_POINT),
    ]
    attrs = given.attrs(RequantizeAttrs, axis=int(given.axis), out_dtype=str(given.out_dtype))
    return make_call("qnn.requantize", args, attrs)


class RequantizeConfig:
    """How ``qnn.requantize`` rounds and computes where it does not say, while the context is open.

    The class of what :func:`requantize_config` makes. Source: ``relay.qnn.op.RequantizeConfig``.
    """

    __slots__ = ("compute_dtype", "rounding")
    compute_dtype: str
    rounding: str

    def __init__(self, rounding: str = "UPWARD", compute_dtype: str = "int64"):
        if rounding not in ROUNDINGS or compute_dtype not in COMPUTE_DTYPES:
            raise UserError(
                f"requantize_config takes rounding {' or '.join(ROUNDINGS)} and compute_dtype "
                f"{' or '.join(COMPUTE_DTYPES)}, got {rounding!r} and {compute_dtype!r}"
            )
        object.__setattr__(self, "rounding", rounding)
        object.__setattr__(self, "compute_dtype", compute_dtype)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"'{type(self).__name__}' object cannot set attribute '{name}'")

    def __enter__(self) -> RequantizeConfig:
        push_defaults(self.rounding, self.compute_dtype)
        return self

    def __exit__(self, *exc: object) -> None:
        pop_defaults()

    def __repr__(self) -> str:
        return f"RequantizeConfig(rounding={self.rounding!r}, compute_dtype={self.compute_dtype!r})"


def current_requantize_config() -> RequantizeConfig:
    """The configuration of the innermost open context. Source: ``relay.qnn.op.current_requantize_config``."""
    return RequantizeConfig(*current_defaults())


def requantize_config(**kwargs: str) -> RequantizeConfig:
    """A configuration for a ``with`` statement. Source: ``relay.qnn.op.requantize_config``.

    >>> with requantize_config(rounding="TONEAREST", compute_dtype="float32"):
    ...     current_requantize_config()
    RequantizeConfig(rounding='TONEAREST', compute_dtype='float32')
    """
    return RequantizeConfig(**{k: v for k, v in kwargs.items() if k in RequantizeConfig.__slots__})
