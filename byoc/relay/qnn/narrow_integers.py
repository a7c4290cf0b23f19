"""NarrowIntegerProducts: integer products over numbers of 8 bits compute on these, as processors multiply fastest.

Quantized models multiply ``int32(x) - z`` with constant integers w. Where x has 8 bits and w fits into 8 bits with a
sign, ``sum((x - z) w)`` is ``sum(x w) - z sum(w)``: a product of unsigned by signed bytes with sums of 32 bits, and a
constant for each lane, which goes where a bias goes. Padding becomes padding with z. Signed data is moved by 128, and
so is z. All sums are of 32 bits that wrap, so that the result is the same bit for bit. Requires FoldConstant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType
from byoc.relay import op as relay
from byoc.relay.analysis.operator_calls import calls, moves_one
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, constant
from byoc.relay.interpreter import evaluate
from byoc.relay.narrowing import as_function, tensor_type
from byoc.relay.op.nn.convolution.geometry import conv_geometry
from byoc.relay.transform.base.call_rules import by_form, rewrite_calls
from byoc.relay.traverse import post_order

BYTES = frozenset(["uint8", "int8"])
SUM = "int32"
INTEGERS = frozenset(["int8", "uint8", "int16", "int32"])
FEWEST_CHANNELS = 3  # that fill a word of four


@dataclass(frozen=True)
class Shifted:
    """``int32(data) - zero``: *data* has 8 bits, *zero* is one number of 32 bits, or None for 0."""

    data: RelayExpr
    zero: RelayExpr | None = None

    def unsigned(self) -> Shifted:
        """The same over data without a sign."""
        if tensor_type(self.data).dtype == "uint8":
            return self
        wide = relay.add(relay.cast(self.data, "int16"), constant(np.int16(128)))
        moved = constant(np.int32(128)) if self.zero is None else relay.add(self.zero, constant(np.int32(128)))
        return Shifted(relay.cast(wide, "uint8"), moved)


def shifted(expr: RelayExpr) -> Shifted | None:
    """*expr* as data of 8 bits less a number; None where it is something else."""
    ty = expr.checked_type
    if not isinstance(ty, TensorType) or ty.dtype not in INTEGERS:
        return None
    if ty.dtype in BYTES and not isinstance(expr, Constant):
        return Shifted(expr)
    if calls(expr, "cast"):
        inner = expr.args[0]
        return Shifted(inner) if tensor_type(inner).dtype in BYTES else None
    if calls(expr, "subtract"):
        left, right = expr.args
        base = shifted(left)
        number = tensor_type(right)
        if base is None or base.zero is not None or tensor_type(base.data).shape != ty.shape or not _is_number(number):
            return None
        return Shifted(base.data, relay.reshape(relay.cast(right, SUM), []))
    if moves_one(expr):
        base = shifted(expr.args[0])
        if base is None:
            return None
        return Shifted(_typed(Call(expr.op, [base.data], expr.attrs, None, expr.span)), base.zero)
    return None


def _is_number(ty: TensorType) -> bool:
    return all(d == 1 for d in ty.shape)


def _typed(expr: RelayExpr) -> RelayExpr:
    infer_expr(expr)
    return expr


def narrow_weights(expr: RelayExpr) -> np.ndarray | None:
    """Constant integers as bytes with a sign; None where they do not fit.

    Those that FoldConstant left, because they would be larger than what they are made from, are computed here.
    """
    ty = expr.checked_type
    if not isinstance(ty, TensorType) or ty.dtype not in INTEGERS or not is_constant(expr):
        return None
    values = np.asarray(evaluate(expr))
    fits = values.size and int(values.min()) >= -128 and int(values.max()) <= 127
    return values.astype("int8") if fits else None


def is_constant(expr: RelayExpr) -> bool:
    """Whether *expr* is made of constants by operators alone."""
    return all(isinstance(n, Constant | Op) or (isinstance(n, Call) and isinstance(n.op, Op)) for n in post_order(expr))


def _conv(call: Call, data: Shifted, weights: np.ndarray) -> RelayExpr | None:
    attrs = call.attrs
    geometry = conv_geometry([a.checked_type for a in call.args], attrs, len(attrs.strides))
    if geometry.is_depthwise or geometry.reduced < FEWEST_CHANNELS:
        return None
    layout = attrs.out_layout or attrs.data_layout
    spatial = attrs.data_layout.replace("N", "").replace("C", "")
    source = data.data
    if data.zero is not None and any(map(any, geometry.pads)):
        pads = dict(zip(spatial, geometry.pads, strict=True))
        width = [pads.get(letter, (0, 0)) for letter in attrs.data_layout]
        source = relay.nn.pad(source, width, relay.cast(data.zero, "uint8"))
        attrs = dataclasses.replace(attrs, padding=(0,) * (2 * len(spatial)))
    axes = tuple(k for k, letter in enumerate(attrs.kernel_layout) if letter != "O")
    sums = weights.sum(axes, dtype=SUM).reshape([-1 if letter == "C" else 1 for letter in layout])
    attrs = dataclasses.replace(attrs, out_dtype=SUM)
    return _corrected(Call(call.op, [source, constant(weights)], attrs, None, call.span), data, sums)


def _dense(call: Call, data: Shifted, weights: np.ndarray) -> RelayExpr:
    attrs = dataclasses.replace(call.attrs, out_dtype=SUM)
    product = Call(call.op, [data.data, constant(weights)], attrs, None, call.span)
    return _corrected(product, data, weights.sum(1, dtype=SUM))


def _matmul(call: Call, data: Shifted, weights: np.ndarray) -> RelayExpr | None:
    if call.attrs.transpose_a:
        return None
    attrs = dataclasses.replace(call.attrs, out_dtype=SUM)
    sums = weights.sum(-1 if attrs.transpose_b else -2, dtype=SUM)
    sums = sums[..., None, :] if weights.ndim > 2 else sums
    return _corrected(Call(call.op, [data.data, constant(weights)], attrs, None, call.span), data, sums)


def _corrected(product: Call, data: Shifted, sums: np.ndarray) -> RelayExpr:
    if data.zero is None:
        return product
    return relay.subtract(product, relay.multiply(constant(sums), data.zero))


Rule = Callable[[Call, Shifted, np.ndarray], "RelayExpr | None"]
RULES: Mapping[ProductForm, Rule] = {
    ProductForm.CONVOLUTION: _conv,
    ProductForm.DENSE: _dense,
    ProductForm.MATRICES: _matmul,
}


def _narrowed(rule: Rule) -> Callable[[Call, Call], RelayExpr]:
    def narrowed(before: Call, after: Call) -> RelayExpr:
        if tensor_type(before).dtype != SUM:
            return after
        for arg in after.args:
            infer_expr(arg)
        if [tensor_type(a).dtype for a in after.args] == ["uint8", "int8"]:
            return after
        data, weights = shifted(after.args[0]), narrow_weights(after.args[1])
        if data is None or weights is None:
            return after
        unsigned = data.unsigned()
        infer_expr(unsigned.data)
        made = rule(before, unsigned, weights)
        return after if made is None else _typed(made)

    return narrowed


def narrowed(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with integer products over bytes on bytes."""
    return as_function(rewrite_calls(func, by_form({form: _narrowed(rule) for form, rule in RULES.items()}), mod))
