"""Operators on dequantized tensors as integers, where no quantize follows: ``op(dequantize(x))`` to
``dequantize(qnn.op(x))``.

Only operators whose result says by itself what it stands for are turned over: a rule that asks for the type of its
result finds none and leaves the floats. Source: the QAT pass of ``FakeQuantizationToInteger``.
"""

from __future__ import annotations

from byoc.ir.affine_type import AffineType, TensorAffineType, TupleAffineType, as_tuple_affine_type
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType
from byoc.relay.analysis.fake_quantized_regions import DEQUANTIZE, QUANTIZE
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr, is_assignable
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem
from byoc.relay.narrowing import as_call, operator_of, tensor_type, tuple_type
from byoc.relay.qnn.fake.rewriting import TypeMap, affine_type_of, apply_rule, rule_of
from byoc.relay.qnn.op import dequantize
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import typed_rewrite

Integers = tuple[RelayExpr, AffineType]


class _Turning:
    """Rewrites a typed expression over floats; *integers* holds what a node is before it is dequantized."""

    def __init__(self, optional_qnn_ops: frozenset[str]):
        self.optional = optional_qnn_ops
        self.integers: dict[RelayExpr, Integers] = {}

    def turned(self, before: RelayExpr, after: RelayExpr) -> RelayExpr:
        """The float that stands for *before*: its integers dequantized where it is turned over, else *after*."""
        found = self._integers_of(before)
        if found is not None:
            self.integers[before] = found
            after = _dequantized(*found, before)
            infer_expr(after)
        elif calls(before, DEQUANTIZE):
            infer_expr(after)
            self.integers[before] = (as_call(after).args[0], affine_type_of(as_call(after)))
        return after

    def _integers_of(self, node: RelayExpr) -> Integers | None:
        if isinstance(node, TupleGetItem) and node.tuple_value in self.integers:
            expr, ty = self.integers[node.tuple_value]
            new = TupleGetItem(expr, node.index, node.span)
            infer_expr(new)
            return new, as_tuple_affine_type(ty).types[node.index]
        if isinstance(node, Call) and isinstance(node.op, Op) and not calls(node, DEQUANTIZE):
            return None if calls(node, QUANTIZE) else self._turned(node)
        return None

    def _operand(self, arg: RelayExpr) -> Integers | None:
        """The integers of an argument, a tuple's from its fields; None for a constant or floats."""
        if isinstance(arg, Tuple) and arg.fields and all(f in self.integers for f in arg.fields):
            fields = [self.integers[f] for f in arg.fields]
            return Tuple([f for f, _ in fields], arg.span), TupleAffineType(t for _, t in fields)
        return self.integers.get(arg)

    def _turned(self, node: Call) -> Integers | None:
        rule = rule_of(operator_of(node), self.optional)
        operands = [self._operand(arg) for arg in node.args]
        floats = [a for a, o in zip(node.args, operands, strict=True) if o is None and not isinstance(a, Constant)]
        if rule is None or floats or not any(operands):
            return None
        args = [a if o is None else o[0] for a, o in zip(node.args, operands, strict=True)]
        for arg in args:
            infer_expr(arg)
        types = TypeMap({o[0]: o[1] for o in operands if o is not None})
        try:
            expr, ty = apply_rule(rule, Call(node.op, args, node.attrs, span=node.span), types)
            meant = infer_expr(_dequantized(expr, ty, node))
        except Exception:  # the rule needs what the quantize would have said, or refuses; it may be a vendor's
            return None
        return (expr, ty) if is_assignable(meant, node.checked_type) else None


def _dequantized(expr: RelayExpr, ty: AffineType, like: RelayExpr) -> RelayExpr:
    if isinstance(ty, TupleAffineType):
        fields = [TupleGetItem(expr, k, like.span) for k in range(len(ty.types))]
        likes = tuple_type(like).fields
        made = []
        for field, t, field_type in zip(fields, ty.types, likes, strict=True):
            assert isinstance(t, TensorAffineType) and isinstance(field_type, TensorType)
            made.append(dequantize(field, t.scale, t.zero_point, t.axis, field_type.dtype))
        return Tuple(made, like.span)
    assert isinstance(ty, TensorAffineType)
    new = dequantize(expr, ty.scale, ty.zero_point, ty.axis, tensor_type(like).dtype)
    new.span = like.span
    return new


def turn_dequantized(root: RelayExpr, optional_qnn_ops: frozenset[str]) -> RelayExpr:
    """The typed *root* with operators on dequantized tensors as integers, dequantized afterwards."""
    return typed_rewrite(root, _Turning(optional_qnn_ops).turned, fusion_children)
