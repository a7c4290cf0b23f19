"""Quantizing what backends of integers take: values around it are bytes, so that regions are integers from end to end.

A backend's :class:`IntegerForm` names the operators. Products need constant weights; a bias and the functions that a
hardware applies to a sum (``nn.relu``, ``clip``) go with what makes the sum. Every other value that a chosen operator
reads or makes is quantized once, whoever reads it, and dequantized once for the operators that stay in floats. A value
that bounds alone read has the range of what these leave: both commute, for quantizing is monotone. Invariant: the new
function means the old one but for the rounding that its ``qnn.quantize`` and ``qnn.dequantize`` write down; what makes
integers of it comes afterwards (``FakeQuantizationToInteger``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS
from byoc.ir.traits import Scaling
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import carries_one, op_name, traits_of
from byoc.relay.expr import Call, Constant, Function, Tuple, constant
from byoc.relay.narrowing import tensor_type
from byoc.relay.qnn.op import dequantize, quantize
from byoc.relay.qnn.quantize.products import FLOAT, Left, is_product, refusal, rule_of
from byoc.relay.qnn.quantize.ranges import Affine, quantize_weights
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order, rebuild
from byoc.runtime.kernels.qnn.rounding import TOEVEN

BIAS = "nn.bias_add"


class IntegerForm(Protocol):
    """What a backend declares (``byoc.contract.Quantized``)."""

    @property
    def operators(self) -> tuple[str, ...]: ...

    @property
    def data(self) -> str: ...

    @property
    def symmetric(self) -> bool: ...

    @property
    def per_channel(self) -> bool: ...


class RegionQuantizer:
    """One typed function: which of its calls are chosen, which values need ranges, and the function rewritten.

    *keep* names operators and ONNX nodes that stay in float32, *ends* the places of products that do; *reasons* says of
    each product that stays why, *sources* are the values whose ranges are to be observed.
    """

    def __init__(
        self,
        function: Function,
        forms: Sequence[IntegerForm],
        keep: Sequence[str] = (),
        ends: Mapping[int, Left] | None = None,
    ):
        self.function, self.forms = function, forms
        self.order = list(post_order(function.body, fusion_children))
        self.users: dict[RelayExpr, list[RelayExpr]] = {}
        for node in self.order:
            for child in dict.fromkeys(fusion_children(node)):
                self.users.setdefault(child, []).append(node)
        self.reasons: dict[Call, Left] = {}
        self.kept: set[RelayExpr] = set()
        self._find_reasons(keep, ends or {})
        self._choose()

    def _find_reasons(self, keep: Sequence[str], ends: Mapping[int, Left]) -> None:
        products = [n for n in self.order if isinstance(n, Call) and is_product(n)]
        for place, call in enumerate(products):
            reason = refusal(call, keep, narrow=False) or ends.get(place) or ends.get(place - len(products))
            if reason is not None:
                self.reasons[call] = reason

    def _choose(self) -> None:
        self.form: dict[RelayExpr, IntegerForm] = {}
        for node in self.order:
            form = self._form(node)
            if form is not None:
                self.form[node] = form
        for node in [n for n in self.form if self._is_padding(n)]:  # padding goes with the products that read it
            if not all(u in self.form and _multiplies(u) for u in self.users.get(node, ())):
                del self.form[node]
        inputs = [v for node in self.form for v in self._read(node)]
        made = [node for node in self.form if not self.is_inner(node)]
        self.sources = list(dict.fromkeys(self.representative(v) for v in (*inputs, *made)))

    def _form(self, node: RelayExpr) -> IntegerForm | None:
        """The form of the first backend that computes the call *node* on integers; None where it stays in floats."""
        form = next((f for f in self.forms if op_name(node) in f.operators), None)
        ty = node.checked_type if isinstance(node, Call) else None
        if form is None or not isinstance(node, Call) or not isinstance(ty, TensorType) or ty.dtype != FLOAT:
            return None
        if node in self.kept:
            return None
        if is_product(node):
            return None if node in self.reasons else form
        if self._is_padding(node) or carries_one(node):
            return form
        data = node.args[0]
        if _constants_beside(node):
            goes_with = data in self.form and _multiplies(data) and len(self.users[data]) == 1
            return form if goes_with and bias_of(node) is not None else None
        if len(node.args) == 1 and not isinstance(data, Tuple):
            return form if self._is_function(node) else None
        return form if all(_is_float(v) and not isinstance(v, Constant) for v in _tensors(node)) else None

    def _is_function(self, node: Call) -> bool:
        """Whether *node* is a function of each element of a chosen value that nobody else reads."""
        traits, data = traits_of(node), node.args[0]
        single = data in self.form and len(self.users[data]) == 1
        return single and traits is not None and traits.is_pointwise

    @staticmethod
    def _is_padding(node: RelayExpr) -> bool:
        """Whether *node* carries the elements of its first argument, with a constant number around them."""
        traits = traits_of(node)
        return (
            isinstance(node, Call)
            and traits is not None
            and traits.only_moves
            and len(node.args) == 2
            and isinstance(node.args[1], Constant)
        )

    def is_inner(self, node: RelayExpr) -> bool:
        """Whether the chosen *node* makes no bytes: padding, and a sum that waits for its bias."""
        if self._is_padding(node):
            return True
        users = self.users.get(node, [])
        user = users[0] if len(users) == 1 and users[0] in self.form else None
        waits = isinstance(user, Call) and _constants_beside(user) and not is_product(user)
        return waits and _multiplies(node)

    def representative(self, value: RelayExpr) -> RelayExpr:
        """The value whose range *value* has."""
        while True:
            users = self.users.get(value, [])
            if value in self.form and carries_one(value):
                value = value.args[0]
            elif value in self.form and len(users) == 1 and users[0] in self.form and self._applied(users[0]):
                value = users[0]
            else:
                return value

    def _applied(self, node: RelayExpr) -> bool:
        """Whether *node* bounds the elements of one value: on integers it has the units of these, and no operator of
        its own.
        """
        bounds = f"qnn.{(op_name(node) or '').rpartition('.')[-1]}" not in OPS
        return bounds and isinstance(node, Call) and len(node.args) == 1 and self._is_function(node)

    def _read(self, node: RelayExpr) -> Iterator[RelayExpr]:
        """The values that the chosen *node* reads as bytes."""
        for value in _tensors(node):
            if not isinstance(value, Constant) and not (value in self.form and self.is_inner(value)):
                yield value

    def leave(self, source: RelayExpr, reason: Left) -> None:
        """Keep what reads or makes *source* in float32. Its sources may be others afterwards."""
        near = [n for n in self.form if any(self.representative(v) is source for v in (n, *self._read(n)))]
        for node in near:
            self.kept.add(node)
            self.reasons.update({n: reason for n in self._chain(node) if is_product(n) and n in near})
        self._choose()

    def _chain(self, node: RelayExpr) -> Iterator[Call]:
        """The chosen *node*, and what makes the sum that it goes with."""
        while isinstance(node, Call) and node in self.form:
            yield node
            node = node.args[0]

    def form_of(self, source: RelayExpr) -> IntegerForm:
        """The form in which *source* is quantized: of what makes it, else of the first that reads it."""
        near = (n for n in self.form if n is source or any(self.representative(v) is source for v in self._read(n)))
        return self.form[next(near)]

    def rewritten(self, ranges: Mapping[RelayExpr, Affine]) -> Function:
        """The function with its chosen calls over bytes; *ranges* has one for each of *sources*."""
        func = self.function
        body = _Rewriter(self, ranges).run() if self.sources else func.body
        return Function(func.params, body, func.declared_ret_type, func.type_params, func.attrs, func.span)


def _tensors(node: RelayExpr) -> list[RelayExpr]:
    """The arguments of a call, tuples flattened; nothing of what makes none."""
    if not isinstance(node, Call):
        return []
    return [f for arg in node.args for f in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _multiplies(node: RelayExpr) -> bool:
    return isinstance(node, Call) and is_product(node)


def _numbers(value: RelayExpr) -> np.ndarray:
    assert isinstance(value, Constant)
    return value.data.numpy()


def _is_float(value: RelayExpr) -> bool:
    return isinstance(value.checked_type, TensorType) and value.checked_type.dtype == FLOAT


def _constants_beside(node: Call) -> bool:
    """Whether all arguments of *node* but the first, and at least one, are constants."""
    return len(node.args) > 1 and all(isinstance(a, Constant) for a in node.args[1:])


def bias_of(node: Call) -> tuple[np.ndarray, int] | None:
    """The constant of a sum with one number for each output of the product that it is added to, and their axis.

    Batch norms that were folded are such sums. None for other constants.
    """
    traits, product = traits_of(node), node.args[0]
    if traits is None or traits.scaling is not Scaling.SUM or len(node.args) != 2 or not _is_float(product):
        return None
    if op_name(node) != BIAS and not traits.either_order:  # a difference
        return None
    values = _numbers(node.args[1])
    ndim = tensor_type(product).ndim
    attrs = product.attrs if isinstance(product, Call) else None
    layout = str(getattr(attrs, "data_layout", ""))
    axis = layout.index("C") if "C" in layout else ndim - 1
    if op_name(node) == BIAS:
        return (values, axis) if int(node.attrs.axis) % ndim == axis else None
    whole = (1,) * (ndim - values.ndim) + values.shape
    along = whole[axis] == tensor_type(product).shape[axis] and values.size == whole[axis]
    return (values.reshape(-1), axis) if along else None


def quantization_of(affine: Affine, form: IntegerForm) -> tuple[float, int]:
    """Scale and zero point for the numbers that *affine* covers, in the dtype of *form*."""
    least, greatest = -affine.zero_point * affine.scale, (255 - affine.zero_point) * affine.scale
    signed = form.data == "int8"
    if form.symmetric:
        steps = 127 if signed else 255
        scale = float(np.float32(max(-least, greatest) / steps)) or 1.0
        return scale, 0
    return affine.scale, affine.zero_point - (128 if signed else 0)


class _Rewriter:
    """Puts quantize and dequantize calls into one function."""

    def __init__(self, plan: RegionQuantizer, ranges: Mapping[RelayExpr, Affine]):
        self.plan, self.ranges = plan, ranges
        self.new: dict[RelayExpr, RelayExpr] = {}
        self.floats: dict[RelayExpr, RelayExpr] = {}

    def run(self) -> RelayExpr:
        for node in self.plan.order:
            self.new[node] = self._node(node)
        return self._for_others(self.plan.function.body)

    def _node(self, node: RelayExpr) -> RelayExpr:
        if node in self.plan.form:
            assert isinstance(node, Call)
            args = [self._argument(node, k) for k in range(len(node.args))]
            bias = bias_of(node) if _constants_beside(node) and not is_product(node) else None
            if bias is not None and op_name(node) != BIAS:
                return call_op(BIAS, [args[0], constant(bias[0])], node.span, axis=bias[1])
            return Call(node.op, args, node.attrs, node.type_args, node.span)
        inner = fusion_children(node)
        return rebuild(node, [self._for_others(c) for c in inner]) if inner else node

    def _argument(self, node: Call, place: int) -> RelayExpr:
        arg = node.args[place]
        if isinstance(arg, Tuple):
            return Tuple([self._rounded(f) for f in arg.fields], arg.span)
        if isinstance(arg, Constant):
            return _weights(node, self.plan.form[node]) if place == 1 and is_product(node) else arg
        return self.new[arg] if arg in self.plan.form and self.plan.is_inner(arg) else self._rounded(arg)

    def _for_others(self, node: RelayExpr) -> RelayExpr:
        """*node* as an operator in float32 reads it."""
        made = node in self.plan.form and not self.plan.is_inner(node)
        return self._rounded(node) if made else self.new[node]

    def _rounded(self, node: RelayExpr) -> RelayExpr:
        """*node* dequantized from its bytes, which are made once."""
        if node not in self.floats:
            source = self.plan.representative(node)
            form = self.plan.form_of(source)
            scale, zero = quantization_of(self.ranges[source], form)
            numbers = constant(scale, FLOAT), constant(zero, "int32")
            made = quantize(self.new[node], *numbers, out_dtype=form.data, rounding=TOEVEN)
            self.floats[node] = dequantize(made, *numbers)
            made.span = self.floats[node].span = node.span
        return self.floats[node]


def _weights(call: Call, form: IntegerForm) -> RelayExpr:
    """The constant weights of *call* as dequantized int8, with a scale for each output where *form* has one."""
    rule = rule_of(call)
    assert rule is not None  # of what is chosen
    axis, values = rule.axis(call), _numbers(call.args[1])
    whole, scales = quantize_weights(values if form.per_channel else values[None], axis if form.per_channel else 0)
    if not form.per_channel:
        whole, scales = whole[0], scales.reshape(())
    made = dequantize(constant(whole), constant(scales), constant(0, "int32"), axis=axis)
    made.span = call.args[1].span
    return made
