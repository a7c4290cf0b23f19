"""InlineCalls: a call of a plain function literal becomes the function's body over the arguments.

Functions that mean something to others stay as they are: ``Composite``, ``Primitive`` and ``Compiler``. Each call
gets a copy of what depends on its arguments, so that nested functions which are called often make the graph as large
as its run is long. Ours; Relay's Inline does the same for global functions.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.variables import bound_vars
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import rewrite, substitute

MEANINGFUL = ("Composite", "Primitive", "Compiler")


def InlineCalls() -> FunctionPass:
    """The pass that leaves no call of a plain function literal, so that graph executors can run what is left."""

    def inline(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(rewrite(func, _inlined))

    return FunctionPass(
        inline, PassInfo("InlineCalls", ends=REWRITES, law=Law("a call of a function is its body over the arguments"))
    )


def _inlined(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    """The body for a call of a plain function; variables that the body binds are made anew for each call."""
    if not isinstance(after, Call) or not isinstance(after.op, Function):
        return after
    function = after.op
    if any(key in function.attrs for key in MEANINGFUL) or len(function.params) != len(after.args):
        return after
    values: dict[RelayExpr, RelayExpr] = {
        var: Var(var.name_hint, var.type_annotation, var.span) for var in bound_vars(function.body)
    }
    values.update(zip(function.params, after.args, strict=True))
    return substitute(function.body, values)
