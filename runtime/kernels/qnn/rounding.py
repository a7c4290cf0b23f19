"""How requantization rounds and in which dtype it computes where an operator does not say.

The choice is one for all that runs: passes read it where they lower ``qnn.requantize``, kernels where they run it.
Source: ``relay.qnn.op.requantize_config``, whose defaults without the name of a processor are these.
"""

from __future__ import annotations

from contextvars import ContextVar

UPWARD, TONEAREST = "UPWARD", "TONEAREST"
ROUNDINGS = (UPWARD, TONEAREST)
# as ONNX says it, which Relay does not know: in floats, halves to even, before the zero point is added
TOEVEN = "TOEVEN"
# as ONNX Runtime's pools of bytes round: halves to even, after the zero point is added
MOVED_TOEVEN = "MOVED_TOEVEN"
OF_ONNX = (TOEVEN, MOVED_TOEVEN)
COMPUTE_DTYPES = ("int64", "float32", "float64")
UNSAID = "None"
DEFAULT = (UPWARD, "int64")

_STACK: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("requantize_defaults", default=())


def current_defaults() -> tuple[str, str]:
    """The rounding and the compute dtype of the innermost open choice."""
    stack = _STACK.get()
    return stack[-1] if stack else DEFAULT


def push_defaults(rounding: str, compute_dtype: str) -> None:
    """Open a choice."""
    _STACK.set((*_STACK.get(), (rounding, compute_dtype)))


def pop_defaults() -> None:
    """Close the innermost choice."""
    _STACK.set(_STACK.get()[:-1])


def resolve(rounding: str, compute_dtype: str) -> tuple[str, str]:
    """The rounding and the compute dtype of an operator: its own, or those of the current choice for ``None``.

    ``TOEVEN`` is of floats: float32 where nothing else is said.
    """
    default = (TOEVEN, "float32") if rounding == TOEVEN else current_defaults()
    return (
        default[0] if rounding in (UNSAID, "") else rounding,
        default[1] if compute_dtype in (UNSAID, "") else compute_dtype,
    )
