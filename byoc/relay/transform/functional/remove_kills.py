"""RemoveKills: ``memory.kill`` goes, for machines that end lives themselves.

Ensures: no ``memory.kill`` is left; a binding of one is gone, and elsewhere it is the empty tuple that it gives.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Function, Let, Tuple
from byoc.relay.narrowing import as_function, as_let
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, typed_rewrite

KILL = "memory.kill"


def RemoveKills() -> FunctionPass:
    """The pass that takes back what ManifestLifetimes has written."""

    def remove(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if not any(calls(node, KILL) for node in post_order(func)):
            return func
        return as_function(typed_rewrite(func, _without_kill))

    return FunctionPass(
        remove, PassInfo("RemoveKills", ends=REWRITES, law=Law("a mark that memory is free is no part of a value"))
    )


def _without_kill(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    if isinstance(before, Let) and calls(before.value, KILL):
        return as_let(after).body
    return Tuple([]) if calls(after, KILL) else after
