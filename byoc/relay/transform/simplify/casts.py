"""SimplifyExpr's rules of dtypes: casts in a row, clips that the dtype makes already, positions of quantized values.

A cast is left out only where every value survives it. ``CASTS`` is the pipeline's set, ``RELAY_CASTS`` that of Relay's
pass, where a clip to a whole range goes only behind a cast. Source: ``SimplifySameCast``, ``SimplifyConsecutiveCast``,
``SimplifyClipAndConsecutiveCast``, ``SimplifyCastClip``, ``SimplifyDQArgFunc`` of
``src/relay/transforms/simplify_expr.cc``, which take an int for a narrower uint and an int32 for a float32 too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType, dtype_bits
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant
from byoc.relay.transform.base.call_rules import ByOperator
from byoc.relay.transform.simplify.rules import Rule, keeps_type, law, merged
from byoc.relay.transform.simplify.shapes import cast_like
from byoc.runtime.core.small_types import SMALL_FLOATS, integer_range

# the greatest power of two below which every whole number is a value of the dtype
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_SMALL_IN_FLOAT16 = frozenset(SMALL_FLOATS) - {"float8_e8m0fnu"}  # whose every value is one of float16's


def _dtype(expr: RelayExpr) -> str:
    ty = expr.checked_type
    return ty.dtype if isinstance(ty, TensorType) else ""


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def holds_all(wide: str, narrow: str) -> bool:
    """True when every value of *narrow* is one of *wide*."""
    if wide == narrow:
        return True
    if "string" in (wide, narrow) or wide == "bool":
        return False
    if wide in SMALL_FLOATS:
        return False
    if narrow in SMALL_FLOATS:
        return wide in ("float32", "float64") or (wide == "float16" and narrow in _SMALL_IN_FLOAT16)
    if narrow in _MANTISSA:
        return wide in ("float32", "float64") and _MANTISSA[wide] > _MANTISSA[narrow]
    value_bits = dtype_bits(narrow) - narrow.startswith("int")
    if wide in _MANTISSA:
        return value_bits <= _MANTISSA[wide]
    if wide.startswith("uint"):
        return not narrow.startswith("int") and dtype_bits(wide) >= value_bits
    return dtype_bits(wide) - 1 >= value_bits


def _holds_range(call: Call, dtype: str) -> bool:
    """True when the bounds of a clip are values of an integer dtype."""
    if not _is_integer(dtype):
        return False
    low, high = integer_range(dtype)
    result: bool = call.attrs["a_min"] >= low and call.attrs["a_max"] <= high
    return result


@law("cast(cast(x, wide), t) = cast(x, t) where wide holds all of x")
def consecutive_casts(call: Call) -> RelayExpr | None:
    """The outer of two casts alone, where the inner keeps every value of its input, or of the integers of a clip.

    A clip of floats keeps the cast that makes bytes of it, by which products of bytes are found.
    """
    return _one_cast(call, lambda data: _is_integer(_dtype(data)))


@law("cast(cast(x, wide), t) = cast(x, t) where wide holds all of x")
def consecutive_casts_of_relay(call: Call) -> RelayExpr | None:
    """As :func:`consecutive_casts`, also of a clip of floats that an integer is made of at last."""
    # a float is cut to an integer by the one cast as by the other
    return _one_cast(call, lambda data: _is_integer(_dtype(data)) or _is_integer(_dtype(call)))


def _one_cast(call: Call, takes_clip: Callable[[RelayExpr], bool]) -> RelayExpr | None:
    inner = call.args[0]
    if not calls(inner, "cast"):
        return None
    data: RelayExpr = inner.args[0]
    target = _dtype(call)
    clipped = calls(data, "clip") and takes_clip(data) and _holds_range(data, _dtype(inner))
    if not clipped and not holds_all(_dtype(inner), _dtype(data)):
        return None
    return data if clipped and target == _dtype(data) else merged("cast", [data], {"dtype": target}, inner, call)


@law("clip(x, a, b) = x where its dtype has nothing outside of a and b")
def clip_of_dtype(call: Call) -> RelayExpr | None:
    """A clip to the whole range of an integer dtype is none."""
    dtype = _dtype(call)
    if not _is_integer(dtype):
        return None
    low, high = integer_range(dtype)
    whole = call.attrs["a_min"] <= low and call.attrs["a_max"] >= high
    return keeps_type(call) if whole else None


@law("clip(x, a, b) = x where its dtype has nothing outside of a and b")
def clip_of_cast(call: Call) -> RelayExpr | None:
    """A clip of a cast to the whole range of its dtype is none; one of ``qnn.requantize`` stays to be matched."""
    return clip_of_dtype(call) if calls(call.args[0], "cast") else None


@law("an order of dequantized numbers is that of the integers")
def of_dequantized(call: Call) -> RelayExpr | None:
    """The positions of the greatest, least or sorted values are those of the quantized ones, for one positive scale."""
    data = call.args[0]
    if not calls(data, "qnn.dequantize"):
        return None
    source, scale = data.args[:2]
    positive = isinstance(scale, Constant) and scale.data.ndim == 0 and float(scale.data.numpy()) > 0
    # of wider integers two values may become the same float
    if not positive or dtype_bits(_dtype(source)) > 16:
        return None
    return Call(call.op, [source], call.attrs, call.type_args, call.span)


# operators whose calls change the dtype alone
RECASTS: dict[str, tuple[Rule, ...]] = {
    "cast": (keeps_type, consecutive_casts),
    "cast_like": (cast_like,),
}


def _ranking(op: Op) -> tuple[Rule, ...] | None:
    return (of_dequantized,) if op.traits.ranks else None


CASTS: Mapping[str, tuple[Rule, ...]] = ByOperator(RECASTS, {"clip": (clip_of_dtype,)}, _ranking)

RELAY_CASTS: Mapping[str, tuple[Rule, ...]] = ByOperator(
    CASTS, {"cast": (keeps_type, consecutive_casts_of_relay), "clip": (clip_of_cast,)}
)
