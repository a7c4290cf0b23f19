"""Quantizing by ranges known beforehand: products read ``qnn.dequantize`` of bytes and of weights of 8 bits.

What a product reads is quantized where it is made: operators that only move numbers or choose among them (reshape,
max pooling) work on the bytes. A value that besides products only elementwise operators read, none as a divisor or at
another place that is sensitive to rounding (``op/sensitivity.py``), is stored as bytes alone
and dequantized for these. Each value has one quantize, whoever reads it. Invariant: the new function means the old one
but for the rounding that its quantize and dequantize calls write down; what computes it on integers comes afterwards
(``QuantizedProducts`` on the host, ``FakeQuantizationToInteger`` for backends that have quantized operators).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, OpPattern
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import carries_one
from byoc.relay.expr import Call, Function, constant
from byoc.relay.narrowing import as_call, as_constant
from byoc.relay.op.pointwise.sensitivity import sensitivities
from byoc.relay.qnn.op import dequantize, quantize
from byoc.relay.qnn.quantize.products import FLOAT, Left, is_product, refusal, rule_of
from byoc.relay.qnn.quantize.ranges import Affine, quantize_weights
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order, rebuild


class StaticQuantizer:
    """One typed function: which products of it are quantized, which values need ranges, and the function rewritten.

    *keep* names operators and ONNX nodes that stay in float32; *reasons* says of each product that stays why, and
    *sources* are the values whose ranges are to be observed, each once.
    """

    def __init__(self, function: Function, keep: Sequence[str] = (), ends: Mapping[int, Left] | None = None):
        self.function = function
        self.order = list(post_order(function.body, fusion_children))
        self.users: dict[RelayExpr, list[RelayExpr]] = {}
        for node in self.order:
            for child in dict.fromkeys(fusion_children(node)):
                self.users.setdefault(child, []).append(node)
        self.products = [n for n in self.order if isinstance(n, Call) and is_product(n)]
        self.reasons: dict[Call, Left] = {}
        for place, call in enumerate(self.products):
            reason = refusal(call, keep) or _at_end(place, len(self.products), ends or {})
            if reason is not None:
                self.reasons[call] = reason
        self._find_sources()

    def _find_sources(self) -> None:
        chosen = [p for p in self.products if p not in self.reasons]
        self.source_of = {p: self._source(p.args[0]) for p in chosen}
        self.sources = list(dict.fromkeys(self.source_of.values()))

    def _source(self, node: RelayExpr) -> RelayExpr:
        """The value that *node* carries, as it was made."""
        while carries_one(node):
            node = node.args[0]
        return node

    def leave(self, source: RelayExpr, reason: Left) -> None:
        """Keep the products that read *source* in float32."""
        self.reasons.update({p: reason for p, s in self.source_of.items() if s is source})
        self._find_sources()

    def rewritten(self, ranges: Mapping[RelayExpr, Affine]) -> Function:
        """The function with its chosen products over quantized numbers; *ranges* has one for each of *sources*."""
        func = self.function
        body = _Rewriter(self, ranges).run() if self.sources else func.body
        return Function(func.params, body, func.declared_ret_type, func.type_params, func.attrs, func.span)


def _at_end(place: int, count: int, ends: Mapping[int, Left]) -> Left | None:
    return ends.get(place) or ends.get(place - count)


class _Rewriter:
    """Puts quantize and dequantize calls into one function."""

    def __init__(self, plan: StaticQuantizer, ranges: Mapping[RelayExpr, Affine]):
        self.plan, self.ranges = plan, ranges
        self.new: dict[RelayExpr, RelayExpr] = {}
        self.bytes: dict[RelayExpr, RelayExpr] = {}
        self.source: dict[RelayExpr, RelayExpr] = {}
        self.narrow = {s for s in plan.sources if isinstance(s, Call) and self._has_narrow_readers(s)}

    def run(self) -> RelayExpr:
        for node in self.plan.order:
            self.source[node] = self.source[node.args[0]] if carries_one(node) else node
            self.new[node] = self._node(node)
        return self.new[self.plan.function.body]

    def _node(self, node: RelayExpr) -> RelayExpr:
        if node in self.plan.source_of:
            assert isinstance(node, Call)
            args = [self._dequantized(node.args[0]), _weights(node)]
            return Call(node.op, args, node.attrs, node.type_args, node.span)
        inner = fusion_children(node)
        return rebuild(node, [self._for_others(c) for c in inner]) if inner else node

    def _for_others(self, node: RelayExpr) -> RelayExpr:
        """*node* as an operator in float32 reads it; each reader dequantizes for itself, in its own loop."""
        return self._dequantized(node) if self.source[node] in self.narrow else self.new[node]

    def _dequantized(self, node: RelayExpr) -> RelayExpr:
        affine = self.ranges[self.source[node]]
        made = dequantize(self._bytes(node), constant(affine.scale, FLOAT), constant(affine.zero_point, "int32"))
        made.span = node.span
        return made

    def _bytes(self, node: RelayExpr) -> RelayExpr:
        """*node* in uint8: quantized where it is made, carried from there."""
        if node not in self.bytes:
            if self.source[node] is node:
                affine = self.ranges[node]
                scale, zero = constant(affine.scale, FLOAT), constant(affine.zero_point, "int32")
                self.bytes[node] = quantize(self.new[node], scale, zero, out_dtype="uint8")
                self.bytes[node].span = node.span
            else:
                self.bytes[node] = rebuild(node, [self._bytes(as_call(node).args[0])])
        return self.bytes[node]

    def _has_narrow_readers(self, source: RelayExpr) -> bool:
        """Whether only products and what takes rounded numbers read *source*, as it is or carried."""
        waiting = [source]
        while waiting:
            node = waiting.pop()
            if node is self.plan.function.body:
                return False
            for user in self.plan.users.get(node, ()):
                if carries_one(user):
                    waiting.append(user)
                elif user not in self.plan.source_of and not _takes_rounded(user, node):
                    return False
        return True


def _weights(call: Call) -> RelayExpr:
    """The constant weights of *call* as dequantized bytes, with a scale for each output."""
    rule = rule_of(call)
    assert rule is not None  # of what is quantized here
    axis = rule.axis(call)
    whole, scales = quantize_weights(as_constant(call.args[1]).data.numpy(), axis)
    made = dequantize(constant(whole), constant(scales), constant(0, "int32"), axis=axis)
    made.span = call.args[1].span
    return made


def _takes_rounded(node: RelayExpr, operand: RelayExpr) -> bool:
    """Whether *node* is elementwise and makes of a rounded *operand* little more than a rounded result."""
    ty = node.checked_type
    simple = isinstance(node, Call) and isinstance(node.op, Op) and node.op.pattern <= OpPattern.BROADCAST
    return simple and isinstance(ty, TensorType) and ty.dtype == FLOAT and not sensitivities(node, operand)
