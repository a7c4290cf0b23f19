"""Passes that are a table, from operators to rules which make something else of their calls; such tables.

A rule gets the typed call and its copy over rewritten arguments, and returns what stands in its place (the copy itself
to leave it). Functions that are a unit of their own (``Primitive``, ``Composite``, ``Compiler``) are not entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Op, get_op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import AnySpan
from byoc.ir.traits import ProductForm
from byoc.relay.analysis.contents import contents_of
from byoc.relay.analysis.module_types import typed_expr
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, rewrite

# Tables from operators to a rule. A row is made when its operator is looked up, so that a table of all operators
# imports none, and covers those that users register later.

V = TypeVar("V", covariant=True)


class ByOperator(Mapping[str, V]):
    """Operators' names to what the last of several layers says of them that says something.

    A layer is a table of names, or a function of the operator which gives None where it has nothing to say.
    """

    def __init__(self, *layers: Mapping[str, V] | Callable[[Op], V | None]):
        self._layers = layers[::-1]
        self._known: dict[Op, V | None] = {}

    def of(self, op: Op) -> V | None:
        """What the table has for *op*; None where it has nothing."""
        if op.rel is None or op not in self._known:  # what only has attributes yet may become anything
            rows = (layer.get(op.name) if isinstance(layer, Mapping) else layer(op) for layer in self._layers)
            self._known[op] = next((row for row in rows if row is not None), None)
        return self._known[op]

    def __getitem__(self, name: str) -> V:
        op = OPS.get(name)
        row = None if op is None else self.of(op)
        if row is None:
            raise KeyError(name)
        return row

    def __iter__(self) -> Iterator[str]:
        return (name for name in OPS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


CallRule = Callable[[Call, Call], RelayExpr]


def call_op(name: str, args: Sequence[RelayExpr], span: AnySpan | None = None, **attrs: object) -> Call:
    """The call of operator *name* with the attributes given, the others at their defaults."""
    op = get_op(name)
    return Call(op, args, op.attrs_type(**attrs) if op.attrs_type is not None else None, span=span)


def calls_with_attr(root: RelayExpr, key: str) -> bool:
    """True when an operator that is called under *root* has the attribute *key*."""
    if isinstance(root, Function) and not contents_of(root).has_attribute(key):
        return False
    nodes = post_order(root, fusion_children)
    return any(isinstance(n, Call) and isinstance(n.op, Op) and n.op.has_attr(key) for n in nodes)


def by_form(rules: Mapping[ProductForm, CallRule]) -> Mapping[str, CallRule]:
    """*rules* for forms of products as rules for the operators that compute them on plain numbers."""

    def rule_of(op: Op) -> CallRule | None:
        form = op.traits.product
        return None if form is None or op.traits.quantized else rules.get(form)

    return ByOperator(rule_of)


def rewrite_calls(root: RelayExpr, rules: Mapping[str, CallRule], mod: IRModule | None = None) -> RelayExpr:
    """*root* with each operator call that has a rule replaced by what the rule gives, bottom up."""
    root = typed_expr(root, mod)
    if isinstance(root, Function) and not any(op.name in rules for op in contents_of(root).operators):
        return root

    def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        rule = rules.get(op_name(before) or "")
        return after if rule is None else rule(as_call(before), as_call(after))

    return rewrite(root, replaced, fusion_children)


def call_rule_pass(name: str, opt_level: int, rules: Mapping[str, CallRule], law: Law) -> FunctionPass:
    """The function pass *name* that applies *rules*, which rest on *law*."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(rewrite_calls(func, rules, mod))

    return FunctionPass(run, PassInfo(name, opt_level, ("InferType",), ends=REWRITES, law=law))
