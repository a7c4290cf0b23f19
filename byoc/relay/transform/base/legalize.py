"""Legalize: operators replace themselves by other expressions, by an attribute whose name the pass is given.

The hook ``f(attrs, inputs, types)`` gets the types of the arguments and of the result, and returns an expression, or
None to stay. Source: ``relay.transform.Legalize``.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.call_rules import calls_with_attr
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import rewrite


def legalize(root: RelayExpr, key: str) -> RelayExpr:
    """The typed *root* with each operator call replaced by what the operator's attribute *key* gives."""

    def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not isinstance(before, Call) or not isinstance(before.op, Op):
            return after
        hook = before.op.get_attr(key)
        if hook is None:
            return after
        types = [*(arg.checked_type for arg in before.args), before.checked_type]
        made = hook(before.attrs, list(as_call(after).args), types)
        if made is None:
            return after
        from byoc.relay.tuple_wrapper import TupleWrapper

        return made.tuple_value if isinstance(made, TupleWrapper) else made

    return rewrite(root, replaced, fusion_children)


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> FunctionPass:
    """The pass that lets operators replace themselves by the attribute *legalize_map_attr_name*."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if not calls_with_attr(func, legalize_map_attr_name):
            return func
        return as_function(legalize(infer_function(func, mod), legalize_map_attr_name))

    return FunctionPass(
        run,
        PassInfo(
            "Legalize",
            1,
            ("InferType",),
            ends=REWRITES,
            law=Law("what an operator registers to stand in its place computes the same", Numbers.ROUNDING),
        ),
    )
