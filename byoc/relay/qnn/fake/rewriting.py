"""One region from floats to integers, by the rules of its operators; all of it or nothing.

A rule ``rule(expr, type_map)`` gets the call over arguments that are integers already, and what each stands for
(for the call itself: what the quantize at the end of the region asks for). It gives ``[integer expression, affine
type]``. Source: ``SubgraphMutator`` and ``FakeQuantizationRewriter``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, overload

from byoc.errors import UserError
from byoc.ir.affine_type import AffineType, TensorAffineType, TupleAffineType, as_tuple_affine_type
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.relay.analysis.fake_quantized_regions import (
    DEQUANTIZE,
    QUANTIZE,
    is_closed,
    region_children,
    region_of,
)
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr, is_assignable
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem
from byoc.relay.narrowing import as_tensor_type, operator_of
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import rebuild, typed_rewrite

RULE, OPTIONAL_RULE = "FTVMFakeQuantizationToInteger", "FTVMOptionalFakeQuantizationToInteger"
TRUNCATES = "FakeQuantizationTruncates"  # marks operators whose result on integers is cut off in the data's units
Rule = Callable[[Call, "TypeMap"], Sequence[object]]
Known = dict[RelayExpr, tuple[RelayExpr, AffineType]]
T = TypeVar("T")


class TypeMap(dict[RelayExpr, AffineType]):
    """What expressions stand for; *asked* records whether a rule looked up the type of its own *call*.

    A rule that did not makes the same of its call whichever quantize follows, so that regions share it.
    """

    call: RelayExpr | None = None
    asked = False

    def __getitem__(self, key: RelayExpr) -> AffineType:
        self.asked = self.asked or key is self.call
        return super().__getitem__(key)

    @overload
    def get(self, key: RelayExpr, default: None = None) -> AffineType | None: ...
    @overload
    def get(self, key: RelayExpr, default: AffineType) -> AffineType: ...
    @overload
    def get(self, key: RelayExpr, default: T) -> AffineType | T: ...
    def get(self, key: RelayExpr, default: object = None) -> object:
        """The type of *key*, or *default*."""
        return self[key] if key in self else default


class NoRuleError(UserError):
    """An operator cannot become an integer one: nobody said how."""


class ChosenOperators(frozenset[str]):
    """The operators whose optional rules count; with *only*, besides what carries numbers, no other rules do."""

    only: frozenset[str] | None = None

    @staticmethod
    def of(optional_qnn_ops: Iterable[str] = (), only: Iterable[str] | None = None) -> ChosenOperators:
        """A choice."""
        chosen = ChosenOperators(optional_qnn_ops)
        chosen.only = None if only is None else frozenset(only)
        return chosen

    def leaves(self, op: Op) -> bool:
        """Whether *op* stays as it is though it may have a rule."""
        return self.only is not None and not (
            op.name in self.only or op.traits.quantized or op.traits.carries or op.traits.is_view
        )


def rule_of(op: Op, optional_qnn_ops: frozenset[str]) -> Rule | None:
    """The operator's rule; one that is off by default counts where the operator is named in *optional_qnn_ops*."""
    if isinstance(optional_qnn_ops, ChosenOperators) and optional_qnn_ops.leaves(op):
        return None
    rule = op.get_attr(RULE)
    if rule is None and op.name in optional_qnn_ops:
        rule = op.get_attr(OPTIONAL_RULE)
    result: Rule | None = rule
    return result


def affine_type_of(dequantize: Call) -> TensorAffineType:
    """What the integers stand for that a ``qnn.dequantize`` reads."""
    dtype = as_tensor_type(infer_expr(dequantize.args[0])).dtype
    return TensorAffineType(dequantize.args[1], dequantize.args[2], dtype, dequantize.attrs.axis)


def apply_rule(rule: Rule, call: Call, types: TypeMap) -> tuple[RelayExpr, AffineType]:
    """What *rule* makes of *call*: a typed integer expression and what it stands for. Raises what the rule raises."""
    made = list(rule(call, types))
    if len(made) != 2 or not isinstance(made[0], RelayExpr) or not isinstance(made[1], AffineType):
        raise UserError(f"the rule of {call.op} must return [expression, affine type], got {made!r}")
    if made[0].span is None:
        made[0].span = call.span
    infer_expr(made[0])
    return made[0], made[1]


class _Region:
    """The integers of one region, node by node; *shared* are those that other regions made already."""

    def __init__(self, quantize: Call, optional_qnn_ops: frozenset[str], shared: Known):
        self.root, self.optional, self.shared = quantize, optional_qnn_ops, shared
        self.types = TypeMap()
        self.memo: dict[RelayExpr, RelayExpr] = {}
        self.own: set[RelayExpr] = set()  # nodes that depend on the quantize of this region
        attrs = quantize.attrs
        self.out_type = TensorAffineType(
            quantize.args[1],
            quantize.args[2],
            attrs.out_dtype,
            attrs.axis,
        )

    def integers(self) -> RelayExpr:
        """The integer expression for the quantize. Raises whatever goes wrong in a rule."""
        nodes = region_of(self.root, self.shared)
        for node in nodes:
            if node in self.shared:
                self.memo[node], self.types[self.shared[node][0]] = self.shared[node]
            elif isinstance(node, Call) and rule_of(operator_of(node), self.optional) is None:
                where = ", ".join(span_names(node.span))
                raise NoRuleError(
                    f"Found no rewrite rule for {operator_of(node).name}{f' (node {where})' if where else ''}; "
                    "give it one with register_fake_quantization_to_integer"
                )
        for node in nodes:
            if node not in self.shared:
                self.memo[node] = self._visit(node)
                self._share(node)
        return self.memo[self.root]

    def _share(self, node: RelayExpr) -> None:
        """Keep what *node* became for other regions, where nothing of it depends on this one's quantize."""
        new = self.memo[node]
        if self.types.asked or any(child in self.own for child in region_children(node)):
            self.own.add(node)
        elif new in self.types and not isinstance(node, Constant):
            self.shared[node] = (new, self.types[new])
        self.types.asked = False

    def _visit(self, node: RelayExpr) -> RelayExpr:
        if isinstance(node, Call):
            return self._visit_call(node)
        if isinstance(node, Tuple):
            made = rebuild(node, [self.memo[f] for f in node.fields])
            self.types[made] = TupleAffineType(self.types[f] for f in made.fields)
            new: RelayExpr = made
        elif isinstance(node, TupleGetItem):
            item = rebuild(node, [self.memo[node.tuple_value]])
            self.types[item] = as_tuple_affine_type(self.types[item.tuple_value]).types[node.index]
            new = item
        else:
            return node
        infer_expr(new)
        return new

    def _visit_call(self, node: Call) -> RelayExpr:
        rule, call = rule_of(operator_of(node), self.optional), node
        assert rule is not None  # integers() has looked
        if calls(node, DEQUANTIZE):
            self.types[node] = affine_type_of(node)
        elif calls(node, QUANTIZE):
            call = rebuild(node, [self.memo[node.args[0]], *node.args[1:]])
        else:
            call = rebuild(node, [self.memo[a] for a in node.args])
            self.types[call] = self.out_type
            self.types.call = call
        new, ty = apply_rule(rule, call, self.types)
        self.types.call = None
        self.types[new] = ty
        return new


def to_integers(quantize: Call, optional_qnn_ops: frozenset[str], hard_fail: bool, shared: Known) -> RelayExpr:
    """The typed *quantize* with its closed region as integers; as it is where a rule is missing or fails.

    *shared* is read and filled with what does not depend on the quantize. With *hard_fail* raises what went wrong.
    """
    try:
        new = _Region(quantize, optional_qnn_ops, shared).integers()
        if not is_assignable(infer_expr(new), quantize.checked_type):
            raise UserError(f"the rules made {new.checked_type} of {quantize.checked_type}")
    except Exception:  # whatever a vendor's rule raises
        if hard_fail:
            raise
        return quantize
    return new


def rewrite_regions(root: RelayExpr, optional_qnn_ops: frozenset[str], hard_fail: bool) -> RelayExpr:
    """The typed *root* with each closed region between dequantized tensors and a quantize as integers."""
    closed: dict[RelayExpr, bool] = {}
    shared: Known = {}

    def is_open(expr: RelayExpr) -> bool:
        """True where no quantize below can turn *expr* over, so that none needs to try."""
        if not hard_fail and isinstance(expr, Call) and isinstance(expr.op, Op):
            if rule_of(expr.op, optional_qnn_ops) is None:
                return True
        return not is_closed(expr, closed)

    def visit(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        new = after
        if calls(after, QUANTIZE) and closed.get(after.args[0], False):
            infer_expr(after)
            new = to_integers(after, optional_qnn_ops, hard_fail, shared)
        closed[new] = new is after and not is_open(after)
        return new

    return typed_rewrite(root, visit, fusion_children)
