"""Passes that are a table: operator name to a rule which makes something else of its calls.

A rule gets the typed call and its copy over rewritten arguments, and returns what stands in its place (the copy itself
to leave it). Functions that are a unit of their own (``Primitive``, ``Composite``, ``Compiler``) are not entered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.ir.passes.law import Law
from byoc.ir.passes.pass_forms import REWRITES
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import AnySpan
from byoc.ir.traits import ProductForm
from byoc.relay.analysis.module_types import typed_expr
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.by_operator import ByOperator
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, rewrite

CallRule = Callable[[Call, Call], RelayExpr]


def call_op(name: str, args: Sequence[RelayExpr], span: AnySpan | None = None, **attrs: object) -> Call:
    """The call of operator *name* with the attributes given, the others at their defaults."""
    op = get_op(name)
    return Call(op, args, op.attrs_type(**attrs) if op.attrs_type is not None else None, span=span)


def calls_with_attr(root: RelayExpr, key: str) -> bool:
    """True when an operator that is called under *root* has the attribute *key*."""
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

    def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        rule = rules.get(op_name(before) or "")
        return after if rule is None else rule(as_call(before), as_call(after))

    return rewrite(root, replaced, fusion_children)


def call_rule_pass(name: str, opt_level: int, rules: Mapping[str, CallRule], law: Law) -> FunctionPass:
    """The function pass *name* that applies *rules*, which rest on *law*."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(rewrite_calls(func, rules, mod))

    return FunctionPass(run, PassInfo(name, opt_level, ("InferType",), ends=REWRITES, law=law))
