"""Which operators may be quantized: products over float32 with constant weights, and why the others are left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.span import span_names
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.operator_calls import op_name, traits_of
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import tensor_type
from byoc.relay.op.nn.convolution.geometry import conv_geometry
from byoc.relay.qnn.narrow_integers import FEWEST_CHANNELS
from byoc.relay.transform.mixed_precision import is_always_converted

FLOAT = "float32"


@dataclass(frozen=True)
class Left:
    """Why a product stays in float32: a code for programs, a sentence for people."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


KEPT = Left("kept", "the user keeps it in f32")
FIRST = Left("first", "it is the first product and keep_first asks for f32")
LAST = Left("last", "it is the last product and keep_last asks for f32")
NOT_FLOAT = Left("not_float32", "it is not over float32")
NO_RULE = Left("no_rule", "there is no int8 form of this operator")
COMPUTED = Left("computed_weights", "its second operand is computed, and only constant weights are quantized")
DEPTHWISE = Left("depthwise", "it is depthwise: each sum has too few terms for products of four bytes")
FEW_CHANNELS = Left("few_channels", f"it sums over fewer than {FEWEST_CHANNELS} channels")
NOT_FINITE_WEIGHTS = Left("weights_not_finite", "a weight is not finite")
NOT_FINITE = Left("not_finite", "its input was not finite on a calibration sample")
NO_SAMPLES = Left("no_samples", "its input has a range known before the run only by calibration: give samples")
TRANSPOSED = Left("transposed", "its first operand is transposed")


def is_product(call: Call) -> bool:
    """Whether *call* is one of the operators that gain by narrow numbers (the rule of mixed precision)."""
    return is_always_converted(call)


def _conv(call: Call) -> Left | None:
    geometry = conv_geometry([a.checked_type for a in call.args], call.attrs, len(call.attrs.strides))
    if geometry.is_depthwise:
        return DEPTHWISE
    return FEW_CHANNELS if geometry.reduced < FEWEST_CHANNELS else None


def _conv_axis(call: Call) -> int:
    result: int = call.attrs.kernel_layout.index("O")
    return result


def _matmul(call: Call) -> Left | None:
    return TRANSPOSED if call.attrs.transpose_a else None


def _matmul_axis(call: Call) -> int:
    ndim = tensor_type(call.args[1]).ndim
    return ndim - 2 if call.attrs.transpose_b else ndim - 1


@dataclass(frozen=True)
class ProductRule:
    """Of one form of product: what keeps a call in float32, and the axis of its weights along which outputs lie."""

    refuses: Callable[[Call], Left | None]
    axis: Callable[[Call], int]
    may_be_dynamic: bool = False  # a range for each row, found when it runs


RULES: Mapping[ProductForm | None, ProductRule] = {
    ProductForm.CONVOLUTION: ProductRule(_conv, _conv_axis),
    ProductForm.DENSE: ProductRule(lambda call: None, lambda call: 0, may_be_dynamic=True),
    ProductForm.MATRICES: ProductRule(_matmul, _matmul_axis, may_be_dynamic=True),
}


def rule_of(call: RelayExpr) -> ProductRule | None:
    """The rule for a product of floats; None where there is no int8 form."""
    traits = traits_of(call)
    return None if traits is None or traits.quantized else RULES.get(traits.product)


def refusal(call: Call, keep: Collection[str], narrow: bool = True) -> Left | None:
    """Why the product *call* cannot be quantized, whatever its input's range; *keep* names what the user keeps.

    *narrow*: for the host, whose products of bytes take four terms at a time.
    """
    if not {op_name(call), *span_names(call.span)}.isdisjoint(keep):
        return KEPT
    rule = rule_of(call)
    if rule is None:
        return NO_RULE
    types = [t for ty in (*(a.checked_type for a in call.args), call.checked_type) for t in tensor_types(ty)]
    if any(t.dtype != FLOAT for t in types) or not isinstance(call.checked_type, TensorType):
        return NOT_FLOAT
    if not isinstance(call.args[1], Constant):
        return COMPUTED
    if not np.isfinite(call.args[1].data.numpy()).all():
        return NOT_FINITE_WEIGHTS
    return rule.refuses(call) if narrow else None
